"""The paper's evaluation for any models: repetition, and estimates at every granularity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_core.analysis import Analysis, analyze
from dlbricks_core.bricks import BrickSet
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.session import Effort
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import (
    DEFAULT_COMPOSER,
    FASTEST_COMPOSER,
    PAPER_COMPOSER,
    TILED_COMPOSER,
    CutOptions,
)
from dlbricks_core.workflows.cutting import ask, cut_models
from dlbricks_core.workflows.evaluate import Evaluation
from dlbricks_core.workflows.measuring import Outcome, measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.timing_order import sweeps_of

COMPOSERS = (TILED_COMPOSER, DEFAULT_COMPOSER, FASTEST_COMPOSER)
"""What the paper's way is compared with."""

RUNS = 20
"""Of each network, unless the user says otherwise."""

QUICK_RUNS = 6
"""Of a shorter study."""

_ENOUGH_S = 3.0
"""Seconds of runs after which a network that takes long has had enough of them."""


@dataclass(frozen=True)
class Study:
    """What models have in common, and what composing their bricks is worth.

    Attributes:
        analysis: Repetition and similarity of the models' layers (Figures 5 to 7).
        by_granularity: The paper's chains and sums, by granularity (Figures 3 and 9 to 12).
        by_composer: DLBricks' own: the paper's layers with large ones timed in part, the default,
            and the fastest.
        unread: Models that were named and could not be loaded.

    All evaluations rest on the same latencies of the whole models, taken in the same
    rounds as the bricks of every granularity.
    """

    analysis: Analysis
    by_granularity: Mapping[int, Evaluation]
    by_composer: Mapping[str, Evaluation]
    unread: Sequence[Failure] = ()

    @property
    def default(self) -> Evaluation:
        """With the composer that DLBricks takes by default."""
        return self.by_composer[DEFAULT_COMPOSER]


def study(
    models: Sequence[CanonicalModel],
    granularities: Sequence[int],
    request: Request,
    store: ResultStore,
    observer: Observer,
) -> Study:
    """Times models, and their bricks at every granularity; continues where it was cut off.

    Args:
        models: In canonical form.
        granularities: The most layers that a brick holds.
        request: How to measure; :data:`RUNS` runs of each network unless it or the protocol
            say how many.
        store: Where measurements are kept, and those from before are found.
        observer: Told of progress.
    """
    request = _fixed(request)
    ways = [
        *(CutOptions.chosen(granularity, None, PAPER_COMPOSER) for granularity in granularities),
        *(CutOptions.chosen(None, None, composer) for composer in COMPOSERS),
    ]
    analysis = analyze(models)
    answers = ask(models, request, observer)
    cuttings = [cut_models(models, way, request, observer, answers) for way in ways]
    bricksets = [brickset for brickset, _ in cuttings]
    targets = [target for sweep in sweeps_of(*bricksets, end_to_end=True) for target in sweep]
    outcome = measure(targets, request, store, observer)
    observer.stage("Composing")
    evaluations = []
    for way, (brickset, cutting_s) in zip(ways, cuttings, strict=True):
        part = _part(outcome, brickset, request, cutting_s)
        evaluations.append(Evaluation.of(assemble(request, way, brickset, part)))
    of_paper, own = evaluations[: len(granularities)], evaluations[len(granularities) :]
    return Study(
        analysis,
        dict(zip(granularities, of_paper, strict=True)),
        dict(zip(COMPOSERS, own, strict=True)),
    )


def _fixed(request: Request) -> Request:
    """Runs that do not depend on how much they scatter: all ways are treated alike."""
    runs = request.runs if request.precision is None else RUNS
    enough_s = _ENOUGH_S if request.protocol.interleaved else None
    return replace(request, runs=runs, precision=None, enough_s=enough_s)


def _part(outcome: Outcome, brickset: BrickSet, request: Request, cutting_s: float) -> Outcome:
    """What of it concerns one way of cutting, as if nothing else had been measured."""
    keys = {
        request.key(target.brick.signature, target.kind)
        for sweep in sweeps_of(brickset, end_to_end=True)
        for target in sweep
    }
    measurements = {key: found for key, found in outcome.measurements.items() if key in keys}
    effort = Effort.of(measurements.values())
    effort.add_loading("brick", cutting_s)
    return replace(
        outcome,
        measurements=measurements,
        failures={key: reason for key, reason in outcome.failures.items() if key in keys},
        unsupported={key: reason for key, reason in outcome.unsupported.items() if key in keys},
        effort=effort,
    )
