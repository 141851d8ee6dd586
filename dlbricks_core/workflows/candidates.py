"""Candidates of a survey: networks to time, and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from dlbricks_core.predict.atlas import SURVEYED
from dlbricks_core.store import ResultStore
from dlbricks_core.survey import Drawn, weights
from dlbricks_core.workflows.knowledge import drawn_family, remember
from dlbricks_core.workflows.measuring import Target
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.timing_order import alike_together

BASE = 400
"""Networks that are drawn regardless of prediction errors. All but the rarest families get about
ten or more of them, from which their error can be judged.
"""

_POOL = 3000
"""Drawn networks, in addition to timed ones, from which a batch is chosen."""


_TRIES = 8
"""Networks of a family that a backend refuses, if it times none of it, before no more are tried."""


def _target(drawn: Drawn) -> Target:
    return Target(drawn.brick, "brick", f"{SURVEYED}{drawn.family}")


class Candidates:
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
        self._stream = map(_target, drawn)
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
        """Takes networks from the candidates: half of them bricks of models, while there are any.

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
