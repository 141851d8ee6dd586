"""Puts models under the same load on several backends, in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_core.commands.options.approach import check_backends
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_serving.serving.run import (
    LoadRequest,
    ModelUnderLoad,
    Row,
    UnderLoad,
    rank,
    run_scenario,
)


@dataclass(frozen=True)
class ComparedLoads:
    """Figures of the same models in one scenario, on several backends."""

    runs: Mapping[str, UnderLoad]  #: Figures by the backend's name, at least one.
    unread: Sequence[Failure] = ()  #: Models that could not be loaded.

    @property
    def asked(self) -> LoadRequest:
        """The request for the load, the same for all backends."""
        return next(iter(self.runs.values())).asked

    @property
    def models(self) -> Sequence[Mapping[str, ModelUnderLoad]]:
        """Figures of each model by the backend's name."""
        figures = zip(*(run.models for run in self.runs.values()), strict=True)
        return [dict(zip(self.runs, each, strict=True)) for each in figures]

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed, each model keeps the bound, and no figure is doubtful."""
        broken = any(all(each.breaks_bound for each in found.values()) for found in self.models)
        doubtful = any(each.is_doubtful for each in self.runs.values())
        return not (self.failures or doubtful or broken)

    @property
    def failures(self) -> list[Failure]:
        """All failures."""
        return [*self.unread, *(each for run in self.runs.values() for each in run.failures)]


def ranked(found: Mapping[str, ModelUnderLoad]) -> list[tuple[str, Row]]:
    """The best n x m of a model on each backend that has one, the best backend first."""
    able = [(name, model.best) for name, model in found.items()]
    return sorted(
        ((name, row) for name, row in able if row is not None), key=lambda pair: rank(pair[1])
    )


def compare_under_load(
    models: Sequence[CanonicalModel],
    asked: LoadRequest,
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
    cut_options: CutOptions | None = None,
) -> ComparedLoads:
    """Figures of models in one scenario, on several backends.

    The backends take turns: each n x m is done on all of them before the next, so that the machine
    drifts for all alike.

    Args:
        models: Models in canonical form.
        asked: The request for the load.
        requests: How networks run, one request for each backend.
        store: Store of the measurements.
        observer: Receives the progress.
        cut_options: How to cut and compose; ``None`` for the most accurate way.

    Raises:
        DLBricksError: If fewer than two backends are named.
    """
    check_backends([each.backend.name for each in requests])
    cut_options = cut_options or CutOptions.chosen(None, None, None)
    rows: dict[str, list[list[Row]]] = {
        each.backend.name: [[] for _ in models] for each in requests
    }
    for placement in asked.placements:
        turn = replace(asked, placements=[placement])
        for request in requests:
            found = run_scenario(models, turn, request, store, observer, cut_options)
            for own, model in zip(rows[request.backend.name], found.models, strict=True):
                own += model.rows
    return ComparedLoads(
        {
            each.backend.name: UnderLoad(
                each, asked, list(map(ModelUnderLoad, models, rows[each.backend.name])), cut_options
            )
            for each in requests
        }
    )
