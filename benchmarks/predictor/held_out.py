"""Errors of the predictor "atlas" with families held out, for contributions of one system each.

    python benchmarks/predictor/held_out.py CONTRIBUTION...

All networks of a family leave the posterior at once, in closed form: the inverse of the covariance
matrix says what the others alone would tell (Rasmussen and Williams, 2006, section 5.4.2). Layers'
shares of networks' latencies stay those of all networks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy import linalg

from dlbricks_core.predict.atlas import Contribution
from dlbricks_core.predict.baseline import expected_ms
from dlbricks_core.predict.belief import Belief, shares_of
from dlbricks_core.predict.from_atlas import kernel_of, processor_of

WHOLE = 11
"""Least number of different layers of a network that is judged."""


def errors(contribution: Contribution) -> np.ndarray:
    """Logarithms of predicted over measured latency, and their expected deviations."""
    it, kernel = contribution, kernel_of(contribution.setup.backend)
    covariance = kernel.covariance(it.features, it.features)
    expected = np.log(expected_ms(it.features, processor_of(it)))
    noise = it.noise + kernel.noise
    prior = Belief(expected, covariance)
    mean = expected + covariance @ prior.pulls(it.counts, it.log_ms, noise, it.call_ms)
    shares, totals = shares_of(it.counts, mean, it.call_ms)
    spread = shares @ covariance
    inverse = linalg.inv(spread @ shares.T + np.diag(noise))
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
        own, sums = shares_of(it.counts[chosen], belief, it.call_ms[chosen])
        cross = (own @ covariance) @ shares.T
        cross[:, out] = 0
        gain = cross @ inverse
        gain -= gain[:, out] @ np.linalg.solve(block, inverse[out])
        variance = np.einsum("ij,ij->i", own @ covariance, own.toarray())
        variance -= np.einsum("ij,ij->i", gain, cross)
        deviation = np.sqrt(np.maximum(variance, 0) + kernel.noise)
        found.append(np.stack([np.log(sums) - it.log_ms[chosen], deviation], axis=1))
    return np.concatenate(found)


def main(paths: list[Path]) -> None:
    """Prints a line for each contribution."""
    for path in paths:
        off, deviation = errors(Contribution.read(path)).T
        relative = np.abs(np.exp(off) - 1)
        near, covered = np.mean(relative < 0.2), np.mean(np.abs(off) < 1.645 * deviation)
        print(
            f"{path.stem}: {relative.mean():.1%} of {len(off)}, {near:.0%} within 20%, "
            f"{covered:.0%} covered",
            flush=True,
        )


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
