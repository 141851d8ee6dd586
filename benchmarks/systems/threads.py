"""Accuracy of predictions for a number of threads with which only some networks were timed.

    python benchmarks/systems/threads.py CONTRIBUTION...

Of the contributions of one backend, each in turn is left out: its networks are predicted from the
others of that backend, and from probes among the networks that a survey drew.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.from_contribution import with_pulls
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior, shares_of
from dlbricks_prediction.robust import doubt
from dlbricks_survey.probes import choose_probes
from scipy import sparse

PROBES = (0, 5, 10, 30)
CANDIDATES = 200
ASKED = 60
FEWEST_LAYERS = 20
RUNS = 8
Z = 1.645


def figures(left: Contribution, others: Sequence[Contribution]) -> list[tuple[float, ...]]:
    """For each number of probes: median and mean absolute error, coverage, median half-width.

    The last are those with all networks of the contribution but the asked ones.
    """
    drawn = [i for i, group in enumerate(left.groups) if group.startswith("survey:")][:CANDIDATES]
    sizes = np.asarray(left.counts.sum(axis=1)).ravel()
    whole = [i for i, group in enumerate(left.groups) if not group.startswith("survey:")]
    whole = sorted((i for i in whole if sizes[i] >= FEWEST_LAYERS), key=lambda i: -sizes[i])
    every = left.only([*drawn, *whole[:ASKED]])
    candidates, asked = every.counts[: len(drawn)], every.counts[len(drawn) :]
    log_ms, call_ms = every.log_ms, every.call_ms
    kernel = kernel_of(left.setup.backend)
    prior = believed(every.features, left.setup, left.system, others)
    chosen = choose_probes(prior, candidates, asked, kernel.noise, RUNS, max(PROBES))
    rows = []
    for number in PROBES:
        belief = prior
        if number:
            some = list(chosen[:number])
            noise = every.noise[some] + kernel.noise
            extra = doubt(prior, candidates[some], log_ms[some], noise, call_ms[some])
            belief = prior.observed(candidates[some], log_ms[some], noise + extra, call_ms[some])
        rows.append(_judged(belief, asked, log_ms[len(drawn) :], call_ms[len(drawn) :]))
    rest = [i for i in range(len(left)) if i not in whole[:ASKED]]
    known = with_pulls(left.only(rest), kernel)
    belief = believed(every.features, left.setup, left.system, [known])
    return [*rows, _judged(belief, asked, log_ms[len(drawn) :], call_ms[len(drawn) :])]


def _judged(
    belief: LayerPosterior, asked: sparse.csr_array, log_ms: np.ndarray, call_ms: np.ndarray
) -> tuple[float, ...]:
    shares, totals = shares_of(asked, belief.mean, call_ms)
    variance = np.asarray((shares @ belief.covariance * shares.toarray()).sum(axis=1)).ravel()
    errors, widths = np.log(totals) - log_ms, Z * np.sqrt(variance)
    off = np.abs(np.expm1(errors))
    inside = np.abs(errors) <= widths
    return float(np.median(off)), float(off.mean()), float(inside.mean()), float(np.median(widths))


def main(paths: Sequence[Path]) -> None:
    """Prints a line for each contribution that is left out."""
    by_backend = defaultdict(list)
    for each in map(Contribution.read, paths):
        by_backend[each.setup.backend].append(each)
    for backend, found in sorted(by_backend.items()):
        for left in found:
            others = [each for each in found if each is not left]
            cells = [
                f"{k}: {mean:5.1%} ({middle:5.1%}) {inside:4.0%} ±{width:.0%}"
                for k, (middle, mean, inside, width) in zip(
                    (*PROBES, "all"), figures(left, others), strict=True
                )
            ]
            print(f"{backend:12} {left.setup.threads}", *cells, flush=True)


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
