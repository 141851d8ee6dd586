"""Networks that a survey times next, and errors of predictions for them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from zlib import crc32

import numpy as np
from dlbricks_prediction import Contribution
from dlbricks_prediction.atlas import SURVEYED
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.survey import Drawn
from dlbricks_prediction.training_data import contributions, drawn_family, remember

from dlbricks_core.figures.figure import RESAMPLES, interval, relative_half_width
from dlbricks_core.measure.cutting import Target, alike_together
from dlbricks_core.measure.request import Request
from dlbricks_core.store import ResultStore
from dlbricks_survey.networks import weights

#: Networks that are drawn regardless of prediction errors. All but the rarest families get about
#: ten or more of them, from which their error can be judged.
BASE = 400

_POOL = 3000  #: Drawn networks, in addition to timed ones, from which a batch is chosen.


#: Networks of a family that a backend refuses, if it times none of it, before no more are tried.
_TRIES = 8


class SurveyCandidates:
    """Networks that may be timed next.

    Args:
        pieces: Bricks of models.
        drawn: Unlimited source of drawn networks.
        timed: Function that returns the signatures of networks that are timed already.

    Attributes:
        drawn: Number of drawn networks that were handed out or are timed already.
    """

    def __init__(
        self,
        pieces: Sequence[Target],
        drawn: Iterator[Drawn],
        timed: Callable[[Sequence[Target]], Collection[str]],
    ) -> None:
        known = timed(pieces)
        self._pieces = [each for each in pieces if each.brick.signature not in known]
        self._place = {each.brick.signature: i for i, each in enumerate(self._pieces)}
        # Shuffled, so that the first bricks are a fair sample of all models.
        order = np.random.default_rng(0).permutation(len(self._pieces))
        self._pieces = [self._pieces[i] for i in order]
        self._stream = (Target(d.brick, "brick", f"{SURVEYED}{d.family}") for d in drawn)
        self._timed = timed
        self._pool: dict[str, Target] = {}
        self._tried: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self.drawn = 0
        self._fill(BASE)

    def _fill(self, count: int) -> None:
        """Draws networks until a total number has passed through the pool."""
        while len(self._pool) + self.drawn < count:
            more = list(islice(self._stream, BASE))
            known = self._timed(more)
            self.drawn += len(known)
            for each in more:
                if each.brick.signature not in known:
                    self._pool[each.brick.signature] = each

    def next(self, size: int, errors: Mapping[str, float]) -> list[Target]:
        """Chooses networks from the candidates: half are bricks of models, if there are any.

        Bricks of a model come in its order, and drawn networks of a family after each other.

        Args:
            size: Number of networks.
            errors: Relative error of each family's predictions; empty if unknown.
        """
        found, self._pieces = self._pieces[: size // 2], self._pieces[size // 2 :]
        wanted = size - len(found)
        base = max(BASE - self.drawn, 0)
        if base < wanted:
            self._fill(_POOL + self.drawn)
        chosen = list(islice(self._pool, base))[:wanted]
        chosen += self._by_error(wanted - len(chosen), errors, set(chosen))
        self.drawn += len(chosen)
        found.sort(key=lambda each: self._place[each.brick.signature])
        drawn = alike_together(map(self._pool.pop, chosen))
        self._tried.update(drawn_family(each.group) for each in drawn)
        return [*found, *drawn]

    def refuse(self, targets: Iterable[Target]) -> None:
        """Takes note of networks with an operator that the backend does not support."""
        self._refused.update(drawn_family(each.group) for each in targets)

    def _by_error(
        self, wanted: int, errors: Mapping[str, float], without: Collection[str]
    ) -> list[str]:
        """Signatures of networks, from each family in proportion to its share and its error.

        This allocation of samples to strata minimizes the error of their weighted sum (Neyman,
        Journal of the Royal Statistical Society 97, 1934).
        """
        shares, ranks = weights(), Counter[str]()
        hopeless = {
            family
            for family, number in self._refused.items()
            if number >= max(_TRIES, self._tried[family])
        }
        places: dict[str, float] = {}
        for signature, target in self._pool.items():
            family = drawn_family(target.group)
            if signature not in without and family not in hopeless:
                score = shares[family] * errors.get(family, errors.get("", 1.0))
                places[signature] = (ranks[family] + 0.5) / score
                ranks[family] += 1
        return sorted(places, key=places.__getitem__)[:wanted]


def already_timed(
    request: Request, store: ResultStore, targets: Sequence[Target]
) -> frozenset[str]:
    """Signatures of the targets that are timed already, or have failed.

    Their present features are stored, because older versions of DLBricks stored none or others.
    """
    bricks = {each.brick.signature: each.brick for each in targets}
    found = store.get([request.key(signature, "brick") for signature in bricks])
    timed = frozenset(
        key.subject.signature
        for key, measurement in found.items()
        if measurement.failure or len(measurement.values) >= request.runs
    )
    groups = {each.brick.signature: [each.group] for each in targets}
    remember(store, {signature: bricks[signature] for signature in timed}, groups)
    return timed


#: Minimum number of parts of the networks; each part is predicted from the others.
_FEWEST_FOLDS = 5

#: Number of networks, minimum and maximum, that are predicted at a time.
_FEWEST_JUDGED, _MOST_JUDGED = 5, 100

#: Number of networks to predict from while time is short: enough to compare families.
_MOST_OTHERS = 600

#: Number of networks whose weight the error over all families has in the error of each family.
_PRIOR = 5.0


@dataclass(frozen=True)
class Judged:
    """A network whose latency was predicted from others."""

    family: str  #: Family that it was drawn from.
    error: float  #: Logarithm of predicted over measured latency.
    half_width: float  #: Half-width of the 90% interval, relative to its middle.
    covered: bool  #: Whether the interval holds the measured latency.


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
