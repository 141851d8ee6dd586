"""Errors of the predictor "atlas" with families held out, for contributions of one system each.

    python benchmarks/predictor/held_out.py CONTRIBUTION...

All networks of a family leave the posterior at once, in closed form: the inverse of the covariance
matrix gives the prediction from the others alone (Rasmussen and Williams, 2006, section 5.4.2).
Layers' shares of networks' latencies stay those of all networks. ``intervals.py`` judges intervals
instead, because the predictor never has a covariance that rests on all networks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.from_contribution import prior_of, processor_of
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import shares_of
from scipy import linalg

WHOLE = 11
"""Least number of different layers of a network that is judged."""


def errors(contribution: Contribution) -> np.ndarray:
    """Logarithms of predicted over measured latency."""
    it, kernel = contribution, kernel_of(contribution.setup.backend)
    prior = prior_of(it.features, kernel, processor_of(it))
    expected, covariance = prior.mean, prior.covariance
    noise = it.noise + kernel.noise
    given = it.counts, it.log_ms, noise, it.call_ms
    mean = expected + covariance @ prior.pulls(*given)
    shares, totals = shares_of(it.counts, mean, it.call_ms)
    spread = shares @ covariance
    among = np.asarray(spread @ shares.T) + np.diag(noise)
    inverse = linalg.inv(among)
    pull = inverse @ (it.log_ms - np.log(totals) + shares @ (mean - expected))
    families = [set(group.split(",")) for group in it.groups]
    judged = np.diff(it.counts.indptr) >= WHOLE
    judged &= np.array([not group.startswith("survey:") for group in it.groups])
    found = []
    for family in sorted({name for i in np.flatnonzero(judged) for name in families[i]}):
        out = np.array([family in names for names in families])
        block = inverse[np.ix_(out, out)]
        rest = pull - inverse[:, out] @ np.linalg.solve(block, pull[out])
        rest[out] = 0
        belief = expected + covariance @ (shares.T @ rest)
        chosen = np.flatnonzero(out & judged)
        _, sums = shares_of(it.counts[chosen], belief, it.call_ms[chosen])
        found.append(np.log(sums) - it.log_ms[chosen])
    return np.concatenate(found)


def main(paths: list[Path]) -> None:
    """Prints a line for each contribution."""
    for path in paths:
        relative = np.abs(np.expm1(errors(Contribution.read(path))))
        near = np.mean(relative < 0.2)
        print(f"{path.stem}: {relative.mean():.1%} of {len(relative)}, {near:.0%} within 20%")


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
