r"""Replays the dial without timing, from a store that holds all bricks of some models.

For each precision it prints the mean absolute error of the estimates, the share of 90% intervals
that contain the measured latency, and the seconds that timing took when the store was filled. The
predictor learns from no network of a model's own family.

Fill the store first:

    dlbricks estimate --measure onnx: mxnet: --backend NAME --threads 1 --store FILE --end-to-end \
        --composer learned --runs 8
    python benchmarks/dial.py FILE NAME 1 onnx: mxnet:

For `similar` at equal cost, see `dial_against.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from dlbricks_prediction import Contribution, shipped

from dlbricks_core.bricks.families import family_of
from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.adaptive.brick_loop import turn
from dlbricks_core.estimation.adaptive.posterior import Posterior, State
from dlbricks_core.estimation.adaptive.timings import RUNS, Candidates, TimingWorker
from dlbricks_core.figures.figure import Measured
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

PRECISIONS = (0.99, 0.3, 0.2, 0.1, 0.07)
_HOURS_S = 1e5


class Replay(TimingWorker):
    """A bench that looks up timings in the store.

    Attributes:
        seconds: Seconds that the timings took originally.
    """

    seconds = 0.0
    start_s = 0.0  # type: ignore[assignment]
    started = True  # type: ignore[assignment]

    def time(self, signatures: Iterable[str]) -> None:
        """Takes the first runs of networks from the store."""
        keys = [self.key(signature) for signature in signatures]
        found = self.store.get(keys)
        for key in keys:
            measurement = found.get(key)
            if measurement is None or measurement.failure:
                self.outcome.failures[key] = "the store does not hold it"
                continue
            first = replace(measurement, observations=measurement.observations[:RUNS])
            self.seconds += sum((o.loading_s or 0) + (o.spent_s or 0) for o in first.observations)
            self.know(first)

    def insist(self, wholes: AbstractSet[str], left_s: float) -> None:
        """Gives up: whole models are for comparison."""
        self.insisted |= {*wholes}


@dataclass(frozen=True)
class Stop:
    """Estimates at a stop of the dial: errors and half-widths, relative, and seconds."""

    errors: Sequence[float]
    half_widths: Sequence[float]
    seconds: float


def held_out(atlas: Sequence[Contribution], family: str) -> list[Contribution]:
    """The atlas without networks that were cut from models of a family."""
    return [
        each.only([i for i, g in enumerate(each.groups) if family not in g.split(",")])
        for each in atlas
    ]


def stops(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, family: str
) -> dict[float, Stop]:
    """Errors of estimates for models of one family, by precision."""
    cut = cut_models(models, CutOptions.chosen(None, None, LEARNED_COMPOSER), request, Observer())
    atlas = held_out(shipped(request.setup.backend), family)
    found = {}
    for precision in PRECISIONS:
        asked = replace(request, precision=precision)
        subjects = Candidates.of(cut, end_to_end=True)
        bench = Replay(subjects, asked, store, Observer(), ExitStack())
        beliefs = Posterior(PREDICTOR, bench, atlas)
        state = beliefs.state()
        while not turn(state, bench, _HOURS_S):
            state = beliefs.state()
        found[precision] = _stop(state, subjects, bench)
    return found


def _stop(state: State, subjects: Candidates, bench: Replay) -> Stop:
    models = subjects.cutting.brickset.models
    keys = [bench.request.key(cut.whole.signature, "model") for cut in models]
    measured = bench.store.get(keys)
    errors, halves = [], []
    for i, key in enumerate(keys):
        if key in measured and not measured[key].failure:
            value = Measured.of(measured[key], bench.request.protocol).value
            errors.append(float(state.sums[:, i].mean() / value - 1))
            halves.append(float(state.half_widths[i]))
    return Stop(errors, halves, bench.seconds)


def main(path: str, backend: str, threads: str, *names: str) -> None:
    """Prints a line for each precision."""
    request = Request.of(backend, threads=int(threads))
    families: defaultdict[str, list[CanonicalModel]] = defaultdict(list)
    for model in load_models(names, LoadOptions(), Observer()).models:
        families[family_of(model)].append(model)
    with ResultStore.open(path, writes=False) as store:
        found = [stops(models, request, store, family) for family, models in families.items()]
    for precision in PRECISIONS:
        errors = np.abs([e for each in found for e in each[precision].errors])
        halves = np.array([h for each in found for h in each[precision].half_widths])
        seconds = sum(each[precision].seconds for each in found)
        print(
            f"±{precision:4.0%}: {len(errors)} models off by {errors.mean():.1%}, "
            f"{np.mean(errors <= halves):.0%} within intervals of ±{halves.mean():.1%}, "
            f"{seconds:.1f} s of timing"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
