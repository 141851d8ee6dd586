"""Correlation of prediction errors between numbers of threads and between backends.

    python benchmarks/systems/in_common.py CONTRIBUTION...

The contributions are of one system. Each family in turn is held out, with every network that has
something of it. Its largest networks are predicted from the rest of each contribution.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.layer_posterior import shares_of

FEWEST_LAYERS = 20
MOST_ASKED = 8
MOST_KNOWN = 500


def errors(contribution: Contribution, asked: dict[str, list[str]]) -> dict[str, float]:
    """Logarithm of predicted over measured latency, by signature; each family is held out."""
    places = {s: i for i, s in enumerate(contribution.signatures)}
    found = {}
    for family, signatures in asked.items():
        apart = [i for i, g in enumerate(contribution.groups) if family not in g.split(",")]
        chosen = np.random.default_rng(0).permutation(apart)[:MOST_KNOWN]
        rest = contribution.only([int(i) for i in np.sort(chosen)])
        own = contribution.only([places[s] for s in signatures])
        belief = believed(own.features, own.setup, own.system, [rest])
        _, totals = shares_of(own.counts, belief.mean, own.call_ms)
        off = np.log(totals) - own.log_ms
        found |= dict(zip(signatures, off, strict=True))
    return found


def asked_of(contributions: Sequence[Contribution]) -> dict[str, list[str]]:
    """The largest networks of each family that all contributions have."""
    first, *others = contributions
    sizes = np.asarray(first.counts.sum(axis=1)).ravel()
    everywhere = set(first.signatures).intersection(*(each.signatures for each in others))
    found: defaultdict[str, list[str]] = defaultdict(list)
    for i in np.argsort(-sizes):
        group, signature = first.groups[i], first.signatures[i]
        if sizes[i] >= FEWEST_LAYERS and signature in everywhere and "," not in group:
            found[group].append(signature)
    return {family: each[:MOST_ASKED] for family, each in found.items()}


def main(paths: Sequence[Path]) -> None:
    """Prints the correlation of each two contributions' errors."""
    contributions = [Contribution.read(path) for path in paths]
    asked = asked_of(contributions)
    weights = np.array([1 / len(each) for each in asked.values() for _ in each])
    print(f"{len(weights)} networks of {len(asked)} families")
    off = {}
    for each in contributions:
        found = errors(each, asked)
        name = f"{each.setup.backend} {each.setup.threads}"
        off[name] = np.array([found[s] for signatures in asked.values() for s in signatures])
        root = np.sqrt(np.average(off[name] ** 2, weights=weights))
        print(f"{name}: root mean square error {root:.1%}", flush=True)
    for one, other in combinations(off, 2):
        scale = np.sqrt((weights * off[one] ** 2).sum() * (weights * off[other] ** 2).sum())
        print(f"{one} and {other}: {(weights * off[one] * off[other]).sum() / scale:.2f}")


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
