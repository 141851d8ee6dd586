"""The Python API: the action ``compare latencies`` as a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from dlbricks_compare.command import CompareJob
from dlbricks_compare.comparison import Comparison
from dlbricks_compare.data import comparison_data
from dlbricks_compare.page import comparison_page
from dlbricks_compare.report import words_for
from dlbricks_core.api.inputs import (
    Measuring,
    Sources,
    Store,
    check_names,
    checked,
    job_store,
    strict_models,
)
from dlbricks_core.api.results import MeasuredResult, Rows, named, table_row
from dlbricks_core.progress import Observer


def compare(
    models: Sources,
    *,
    backends: Sequence[str],
    granularity: int | None = None,
    split: str | None = None,
    store: Store = None,
    backend_options: Mapping[str, Mapping[str, str]] | None = None,
    **measuring: Unpack[Measuring],
) -> ComparisonResult:
    """Measures models and their parts on several backends, side by side.

    Whole models run as their users run them, and profiles give the latencies of their parts. In the
    cold condition, and with a granularity or a split strategy, the parts are timed alone.

    Args:
        models: One model or several, as for :func:`load`.
        backends: Names of the frameworks' plugins, two or more.
        granularity: Maximum number of layers in a part; ``None`` for segments of the graph that
            each backend makes of a model. A number selects the paper's layer sequences.
        split: Name of the split strategy; ``None`` as for ``granularity``.
        store: As for :func:`time`.
        backend_options: Options of backends, by the backend's name.
        **measuring: As for :func:`time`.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read.
    """
    check_names(measuring)
    given = checked(
        backends=backends,
        granularity=granularity,
        split=split,
        backend_options=backend_options,
        **measuring,
    )
    job = CompareJob(models=strict_models(models), **given)
    return ComparisonResult(job.run(job_store(store), Observer()).result)


@dataclass(frozen=True, repr=False)
class ComparisonResult(MeasuredResult):
    """Comparison of models, and of parts of them, on several backends.

    Attributes:
        result: Result of the workflow.
    """

    result: Comparison

    _columns = ("measured", "measured_interval", "estimate", "composed", "partial")

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks compare``."""
        return dict(comparison_data(self.result))

    def rows(self) -> Rows:
        """One row for each model and backend."""
        return [
            {
                "name": model["name"],
                "backend": backend,
                "winner": model["winner"],
                **table_row(each, self._columns, self.result.quantity.unit),
                "ratio": each["ratio"]["value"] if each["ratio"] else None,
                "ideal": model["ideal"],
            }
            for model in self._data["models"]
            for backend, each in model["backends"].items()
        ]

    def _page(self) -> str:
        return comparison_page(self.result)

    def __repr__(self) -> str:
        least = words_for(self.result.quantity).least
        winners = named(
            f"{model['name']} {f'{least} on' if model['winner'] else 'without'} "
            f"{model['winner'] or 'a winner'}"
            for model in self._data["models"]
        )
        return f"<ComparisonResult on {', '.join(self.result.runs)}: {winners}>"
