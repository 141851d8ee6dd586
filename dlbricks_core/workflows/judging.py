"""Judges predictions: their errors on networks that they do not rest on."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from dlbricks_core.figures.figure import RESAMPLES, interval, relative_half_width
from dlbricks_core.predict import Contribution
from dlbricks_core.predict.from_atlas import believed
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.knowledge import contributions, drawn_family
from dlbricks_core.workflows.request import Request

_FEWEST_FOLDS = 5
"""Minimum number of parts of the networks; each part is predicted from the others.
"""

_FEWEST_JUDGED, _MOST_JUDGED = 5, 100
"""Number of networks, minimum and maximum, that are predicted at a time."""

_MOST_OTHERS = 600
"""Number of networks to predict from while time is short: enough to compare families."""

_PRIOR = 5.0
"""Number of networks whose weight the error over all families has in the error of each family."""


@dataclass(frozen=True)
class Judged:
    """A network whose latency was predicted from others.

    Attributes:
        family: Family that it was drawn from.
        error: Logarithm of predicted over measured latency.
        half_width: Half-width of the 90% interval, relative to its middle.
        covered: Whether the interval holds the measured latency.
    """

    family: str
    error: float
    half_width: float
    covered: bool


class Judges:
    """Estimates the errors of predictions: drawn networks are predicted from all others.

    Attributes:
        networks: Number of networks with a latency.
        families: Number of drawn networks among them, by family.
        last: Networks of the last judgement.
    """

    def __init__(self, request: Request, store: ResultStore) -> None:
        self._request = request
        self._store = store
        self._found: dict[str, Judged] = {}
        self._judgements = 0
        self.networks = 0
        self.families = Counter[str]()
        self.last: Sequence[Judged] = ()

    @property
    def errors(self) -> Mapping[str, float]:
        """Root mean square error of each family, and of all networks under the empty name.

        The error of a family with few networks is shrunk towards that of all networks.
        """
        squares: defaultdict[str, list[float]] = defaultdict(list)
        for each in self._found.values():
            squares[each.family].append(each.error**2)
        if not squares:
            return {}
        mean = float(np.mean([one for each in squares.values() for one in each]))
        found = {
            family: (sum(each) + _PRIOR * mean) / (len(each) + _PRIOR)
            for family, each in squares.items()
        }
        return {family: math.sqrt(square) for family, square in {**found, "": mean}.items()}

    def judge(self, most: int | None = _MOST_OTHERS) -> None:
        """Predicts a part of the networks from the others; another part at each call.

        Args:
            most: Maximum number of networks to predict from; ``None`` for all others.
        """
        mine = self._mine()
        if mine is None:
            return
        self.networks = len(mine)
        families = [drawn_family(group) for group in mine.groups]
        self.families = Counter(family for family in families if family)
        folds = max(_FEWEST_FOLDS, self.families.total() // _MOST_JUDGED)
        part = [crc32(signature.encode()) % folds for signature in mine.signatures]
        fold = self._judgements % folds
        self._judgements += 1
        chosen = [i for i, family in enumerate(families) if family and part[i] == fold]
        if len(chosen) < _FEWEST_JUDGED:
            return
        others = sorted(set(range(len(mine))).difference(chosen))
        if most is not None and len(others) > most:
            others = sorted(
                np.random.default_rng(fold).choice(others, most, replace=False).tolist()
            )
        judged = judged_by(mine.only(chosen), mine.only(others))
        self.last = list(judged.values())
        self._found |= judged

    def _mine(self) -> Contribution | None:
        """The store's contribution for this system and setup."""
        setup, system = self._request.setup, self._request.fingerprint
        for each in contributions(self._store, setup.backend):
            alike = replace(each.setup, plugin=setup.plugin) == setup
            if alike and each.system.fingerprint == system:
                return each
        return None


def judged_by(asked: Contribution, others: Contribution) -> dict[str, Judged]:
    """Judgements of networks that are predicted from others."""
    belief = believed(asked.features, asked.setup, asked.system, [others])
    draws = np.exp(belief.draws(RESAMPLES)) @ asked.counts.T.toarray() + asked.call_ms
    found = {}
    for i, signature in enumerate(asked.signatures):
        low, high = interval(draws[:, i])
        found[signature] = Judged(
            drawn_family(asked.groups[i]),
            float(np.log(draws[:, i].mean()) - asked.log_ms[i]),
            relative_half_width((low, high)),
            low <= math.exp(asked.log_ms[i]) <= high,
        )
    return found
