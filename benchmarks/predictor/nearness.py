"""Judges distances between processors by predictions of systems that are left out.

    python benchmarks/predictor/nearness.py

Each file of one thread is predicted from those of two other systems, for each pair of these. The
surprise is the mean negative logarithm of the probability density of the errors, over the stops of
`stranger.py` beside this folder. For each system, the program prints the surprise of each setting
where this system takes no part, neither as the one that is predicted nor as a source. A setting
that suits only some of them suits a further system by chance. Nothing is measured. The program
takes ten minutes on one core.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import numpy as np
from dlbricks_prediction import Contribution, nearness, shipped
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.nearness import Distances

sys.path.insert(0, str(Path(__file__).parents[1]))

import stranger

CANDIDATES: Mapping[str, Distances] = {
    "before": Distances(0.6, 0.5, 0.7, 0.3, 0.3),
    "built in": Distances(0.6, 0.6, 0.4, 0.3, 0.3),
    "makers nearer": Distances(0.6, 0.2, 0.4, 0.3, 0.3),
    "makers alike": Distances(0.6, 0.0, 0.2, 0.3, 0.3),
    "caches alike": Distances(0.6, 0.2, 0.4, 0.3, 0.15),
}
"""Settings that are judged. `before` counted the third level of caches, too."""

PROBES = (0, 3, 10)
"""Stops at which they are judged: numbers of characterization benchmarks."""


def surprises(it: Contribution, others: Sequence[Contribution]) -> Iterator[float]:
    """Mean negative logarithm of the probability density of the errors, at each stop."""
    parts = stranger.parts_of(it)
    prior = believed(parts.it.features, it.setup, it.system, others)
    for number in PROBES:
        belief = stranger.probed(prior, parts, number)
        off, deviation = stranger.errors(belief, parts.it, np.arange(parts.judged))
        yield float(np.mean(np.log(deviation) + (off / deviation) ** 2 / 2))


def judge(settings: Mapping[str, AbstractContextManager[object]]) -> None:
    """Prints a line for each system that takes no part, with the surprise of each setting.

    Args:
        settings: What patches the predictor for a setting, by its name; entered again and again.
    """
    found: defaultdict[frozenset[str], defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    names = frozenset(each.system.microarchitecture for each in shipped())
    for it in (each for each in stranger.with_others() if each.setup.threads == 1):
        here = it.system.microarchitecture
        for pair in combinations(sorted(names - {here}), 2):
            others = [e for e in shipped(it.setup.backend) if e.system.microarchitecture in pair]
            for name, setting in settings.items():
                with setting:
                    found[names - {here, *pair}][name] += surprises(it, others)
        print(f"{here} {it.setup.backend}", file=sys.stderr)
    for (absent,), each in sorted(found.items(), key=lambda item: sorted(item[0])):
        shown = ", ".join(f"{name} {np.mean(values):+.3f}" for name, values in each.items())
        print(f"without {absent}: {shown}")


def main() -> None:
    """Judges the candidates."""
    judge({
        name: patch.object(nearness, "distances", lambda chosen=setting: chosen)
        for name, setting in CANDIDATES.items()
    })  # fmt: skip


if __name__ == "__main__":
    main()
