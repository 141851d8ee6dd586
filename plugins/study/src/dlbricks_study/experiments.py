"""The paper's evaluation for any models: repetition, and estimates at every granularity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_accuracy.evaluation import Evaluation

from dlbricks_core.compose import Composer, options
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Cutting, cut_models, sweeps_of
from dlbricks_core.measure.ledger import Effort, Ledger
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import rewrite_models
from dlbricks_core.plugins import discover
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_study.repetition import Analysis, analyze

RUNS = 20
"""Default number of runs of each network."""

QUICK_RUNS = 6
"""Number of runs of each network in a short study."""

_ENOUGH_S = 3.0
"""Seconds of runs after which a slow network needs no more."""


@dataclass(frozen=True)
class Study:
    """Repetition in models, and accuracy of composing their bricks.

    All evaluations rest on the same latencies of the whole models, taken in the same
    rounds as the bricks of every granularity.
    """

    analysis: Analysis  #: Repetition and similarity of the models' layers (Figures 5 to 7).
    #: The paper's chains and sums, by granularity (Figures 3 and 9 to 12).
    by_granularity: Mapping[int, Evaluation]
    #: The other composers that are installed, by name; see :func:`compared_composers`.
    by_composer: Mapping[str, Evaluation]
    unread: Sequence[Failure] = ()  #: Models that could not be loaded.

    @property
    def default(self) -> Evaluation:
        """Evaluation of the default composer."""
        return self.by_composer[options.DEFAULT_COMPOSER]


def study(
    models: Sequence[CanonicalModel],
    granularities: Sequence[int],
    request: Request,
    store: ResultStore,
    observer: Observer,
) -> Study:
    """Times models, and their bricks at every granularity. An interrupted study continues.

    Args:
        models: Models in canonical form.
        granularities: Maximum numbers of layers in a brick.
        request: How networks are measured, with :data:`RUNS` runs of each network unless the
            request or the protocol specifies the number.
        store: Store of the measurements, including earlier ones.
        observer: Receives the progress.
    """
    request = _fixed(request)
    composers = compared_composers()
    ways = [
        *(
            options.CutOptions.chosen(granularity, None, options.PAPER_COMPOSER)
            for granularity in granularities
        ),
        *(options.CutOptions.chosen(None, None, composer) for composer in composers),
    ]
    analysis = analyze(models)
    rewrites = rewrite_models(models, request, observer, store=store)
    cuttings = [cut_models(models, way, request, observer, rewrites=rewrites) for way in ways]
    targets = [target for sweep in sweeps_of(*cuttings, end_to_end=True) for target in sweep]
    ledger = measure(targets, request, store, observer)
    observer.stage("Composing")
    evaluations = [
        Evaluation.of(assemble(request, cutting, _part(ledger, cutting, request)))
        for cutting in cuttings
    ]
    of_paper, own = evaluations[: len(granularities)], evaluations[len(granularities) :]
    return Study(
        analysis,
        dict(zip(granularities, of_paper, strict=True)),
        dict(zip(composers, own, strict=True)),
    )


def compared_composers() -> list[str]:
    """Names of the composers that the paper's composer is compared with.

    All usable composers, except composers whose estimates are bounds, and the composer that relies
    on a predictor. Composers that cut models as they are come first.
    """
    found = [plugin for plugin in discover("composer", Composer) if not plugin.problem]
    found.sort(key=lambda plugin: plugin.loaded.cuts_rewritten)
    others = (options.PAPER_COMPOSER, options.LEARNED_COMPOSER)
    return [p.name for p in found if p.name not in others and not p.loaded.is_bound]


def _fixed(request: Request) -> Request:
    """The request with a fixed number of runs, so that all ways of cutting get equal treatment."""
    runs = request.runs if request.precision is None else RUNS
    enough_s = _ENOUGH_S if request.protocol.interleaved else None
    return replace(request, runs=runs, precision=None, enough_s=enough_s)


def _part(ledger: Ledger, cutting: Cutting, request: Request) -> Ledger:
    """The part of a ledger that belongs to one cutting."""
    keys = {
        target.key(request) for sweep in sweeps_of(cutting, end_to_end=True) for target in sweep
    }
    part = ledger.only(keys)
    return replace(part, effort=Effort.of(part.measurements.values()))
