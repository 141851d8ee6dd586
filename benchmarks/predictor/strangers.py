r"""Fits the width of intervals on systems that the reference data lack.

    python benchmarks/predictor/strangers.py

Each file is predicted without its system, its family of processors and its maker, at three stops of
`stranger.py`: with nothing timed, with the rates, and with two whole models at hand. A setting is
judged by the interval score of 90% intervals: their width, and twenty times what they miss
latencies by, in logarithms (Gneiting and Raftery, Strictly Proper Scoring Rules, JASA 102, 2007,
section 6.2).

The program prints the score of each of `CANDIDATES`, and which is best on the files of all systems
but one, for each of these. Then it fits the error that a model has of its own on a system without
reference data, at least that on a known system, to each backend, and writes it. For each system it
prints the number that all others give, and what the intervals then cover on it. Nothing is
measured.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import refit
from dlbricks_prediction import Contribution, from_atlas, transfer
from dlbricks_prediction.kernel import Kernel
from dlbricks_prediction.transfer import Rates
from dlbricks_prediction.whole_errors import discrepancy_of

from dlbricks_core.compose.learned import Learned
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH

sys.path.insert(0, str(Path(__file__).parents[1]))

import stranger


@dataclass(frozen=True)
class Setting:
    """Numbers of a transfer.

    Attributes:
        rates: Variance of the error of each physical term.
        believed: Variance of the share of the baseline's differences that is believed.
        difference: Factor of the covariance of layers' differences that ships.
    """

    rates: float
    believed: float
    difference: float = 1.0

    def patched(self) -> ExitStack:
        """The predictor with these numbers, as long as the context lasts."""
        terms, believed = Rates(*[self.rates] * 5), transfer.believed_of_baseline()
        apart = times(transfer.difference(), self.difference)
        share = replace(believed, variance=self.believed)
        with ExitStack() as stack:
            for name, value in (("rates", terms), ("believed_of_baseline", share),
                                ("difference", apart)):  # fmt: skip
                stack.enter_context(patch.object(transfer, name, lambda found=value: found))
            return stack.pop_all()


CANDIDATES: Mapping[str, Setting] = {
    "until 2026-11-30": Setting(0.05, 0.1, 2.0),
    "layers differ more": Setting(0.075, 0.025, 2.0),
    "built in": Setting(0.075, 0.025),
    "layers differ less": Setting(0.075, 0.025, 0.5),
}
"""Settings that are judged: round numbers."""

BUILT_IN = "built in"
"""The setting in which the models' own error is fitted."""

OWN = (0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15)
"""Standard deviations of a model's own error that are compared."""

MISSED = 2 / (1 - 0.9)
"""Weight of what a 90% interval misses a latency by, beside its width."""

Errors = tuple[np.ndarray, np.ndarray]
"""Logarithms of predicted over measured latencies, and the variances of the belief about these."""


@dataclass(frozen=True)
class Place:
    """A file, without the files of one split, at one stop."""

    system: str
    backend: str
    threads: int
    split: str
    stop: str


def times(kernel: Kernel, factor: float) -> Kernel:
    """A covariance times a factor, its noise included."""
    variances = ("common", "of_class", "of_kind", "class_smooth", "smooth", "rough", "noise")
    return replace(kernel, **{name: factor * getattr(kernel, name) for name in variances})


def at_stops(it: Contribution, others: Sequence[Contribution]) -> Iterator[tuple[str, Errors]]:
    """Errors at each stop, and the variances of the belief without a model's own error."""
    parts = stranger.parts_of(it)
    part, every = parts.it, np.arange(parts.judged)
    prior = from_atlas.believed(part.features, it.setup, it.system, others)
    own = discrepancy_of(it.setup.backend, stranger=True).predicted ** 2
    less = own + Learned.composing_error**2

    def found(off: np.ndarray, deviation: np.ndarray) -> Errors:
        return off, deviation**2 - less

    yield "nothing", found(*stranger.errors(prior, part, every))
    if len(parts.rates):
        belief = stranger.informed(prior, part, parts.rates)
        yield "rates", found(*stranger.errors(belief, part, every))
    wholes = [stranger.at_hand(prior, parts, 2, choice)[:2] for choice in range(stranger.CHOICES)]
    yield "2 wholes", found(*map(np.concatenate, zip(*wholes, strict=True)))


def judged(settings: Mapping[str, Setting]) -> dict[str, dict[Place, Errors]]:
    """Errors in all places, by the name of the setting."""
    found: dict[str, dict[Place, Errors]] = {name: {} for name in settings}
    for it in stranger.with_others():
        name = it.system.microarchitecture
        for split in stranger.SPLITS:
            others = stranger.others_of(it, split)
            for setting in settings if others else ():
                with settings[setting].patched():
                    for stop, errors in at_stops(it, others):
                        where = Place(name, it.setup.backend, it.setup.threads, split, stop)
                        found[setting][where] = errors
        print(f"{name} {it.setup.backend} {it.setup.threads}", file=sys.stderr)
    return found


def half_widths(errors: Errors, own: float) -> np.ndarray:
    """Half-widths of 90% intervals, in logarithms."""
    return NORMAL_HALF_WIDTH * np.sqrt(errors[1] + own**2 + Learned.composing_error**2)


def score(found: Mapping[Place, Errors], own: Mapping[str, float]) -> float:
    """Mean interval score over places, by the models' own error on each backend."""
    every = []
    for place, errors in found.items():
        wide = half_widths(errors, own[place.backend])
        every.append(np.mean(2 * wide + MISSED * np.maximum(np.abs(errors[0]) - wide, 0)))
    return float(np.mean(every))


def covered(found: Mapping[Place, Errors], own: Mapping[str, float]) -> float:
    """Mean coverage over places."""
    return float(np.mean([
        np.mean(np.abs(errors[0]) <= half_widths(errors, own[place.backend]))
        for place, errors in found.items()
    ]))  # fmt: skip


def of(found: Mapping[Place, Errors], backend: str | None = None, less: str | None = None,
       only: str | None = None) -> dict[Place, Errors]:  # fmt: skip
    """Places of a backend, of all systems but one, or of one system."""
    return {
        place: errors
        for place, errors in found.items()
        if backend in (None, place.backend)
        and place.system != less
        and only in (None, place.system)
    }


def best(found: Mapping[Place, Errors], backend: str) -> float:
    """A model's own error with the best score on a backend, or on all for ``*``."""
    least = discrepancy_of(backend).predicted
    kept = found if backend == "*" else of(found, backend)

    def at(own: float) -> float:
        return score(kept, defaultdict(lambda: own))

    return min((least, *(own for own in OWN if own > least)), key=at)


def main() -> None:
    """Judges the candidates, and writes the models' own errors."""
    every = judged(CANDIDATES)
    backends = sorted({place.backend for place in every[BUILT_IN]})
    systems = sorted({place.system for place in every[BUILT_IN]})
    scores = {}
    for name, found in every.items():
        own = {backend: best(found, backend) for backend in backends}
        scores[name] = {less: score(of(found, less=less), own) for less in (None, *systems)}
        print(f"{name}: {scores[name][None]:.3f}, {asdict(CANDIDATES[name])}, own {own}")
    for less in systems:
        name = min(scores, key=lambda name: scores[name][less])
        own = {backend: best(of(every[name], less=less), backend) for backend in backends}
        holds = covered(of(every[name], only=less), own)
        print(f"without {less}: {name}, own {own}; of {less} covered {holds:.0%}")
    found = {name: {"predicted": best(every[BUILT_IN], name)} for name in ("*", *backends)}
    print(found)
    refit.write(from_atlas, "strangers", found, "contributions", "features", "kernel")


if __name__ == "__main__":
    main()
