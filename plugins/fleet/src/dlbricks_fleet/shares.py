"""Shares of a suite: bricks that one of several equal machines times."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dlbricks_suite.folder import Suite, read_suite
from dlbricks_suite.timing import cut_suite

from dlbricks_core.analysis.work import layer_flops
from dlbricks_core.bricks.naming import fold
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel, unpacked
from dlbricks_core.measure.costs import Costs
from dlbricks_core.measure.cutting import Cutting, Target, run_targets
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

_FLOPS, _BYTES = 3e10, 1e10
"""Operations and bytes per second of a usual server. They determine how shares compare, and the
generous time limit after which a share counts as hung.
"""

_RUNS = 15
"""Number of runs of a network that a usual precision needs."""

_NAME = 30
"""Most characters of a network's name, beside which a reason stands."""


@dataclass(frozen=True)
class Priced:
    """A network to time."""

    signature: str  #: Signature of the network.
    name: str  #: Operators of the network in short, for the user.
    seconds: float  #: Expected seconds of timing it.


@dataclass(frozen=True)
class OpenSuite:
    """A suite, cut as a backend runs it."""

    suite: Suite  #: The suite.
    cutting: Cutting  #: Models of the suite, cut.
    targets: tuple[Target, ...]  #: All networks to time for the suite.

    @classmethod
    def of(
        cls, folder: Path, request: Request, store: ResultStore, observer: Observer
    ) -> OpenSuite:
        """Reads and cuts a suite. Models with a stored graph are not rewritten again.

        Raises:
            DLBricksError: If the folder is not a suite, or nothing in it can be read.
        """
        suite = read_suite(folder)
        rewrites = _kept(suite, request, store)
        cutting = cut_suite(suite, request, store, observer, rewrites)
        targets = (
            run_targets(cutting, end_to_end=False, backend=None)
            if suite.models
            else [Target(brick, "brick") for brick in cutting.brickset.bricks.values()]
        )
        return cls(suite, cutting, tuple(targets))

    @property
    def unread(self) -> tuple[Failure, ...]:
        """Models that could not be read."""
        return tuple(self.suite.unread)

    def priced(self) -> list[Priced]:
        """Networks to time for the suite, with the expected seconds."""
        return [
            Priced(each.signature, fold(each.operators, _NAME), _seconds(each.model))
            for each in (target.brick for target in self.targets)
        ]

    def time(
        self, signatures: Collection[str], request: Request, store: ResultStore, observer: Observer
    ) -> Ledger:
        """Times those networks of a share that the store lacks.

        Args:
            signatures: Networks of the share.
            request: How networks are measured.
            store: Store of the measurements.
            observer: Receives the progress.
        """
        targets = [each for each in self.targets if each.brick.signature in set(signatures)]
        cutting = self.cutting if self.suite.models else None
        return measure(targets, request, store, observer, cutting)


def _seconds(model: CanonicalModel) -> float:
    flops = sum(layer_flops(model, layer) or 0 for layer in model.layers)
    moved = model.weight_bytes + model.live_bytes
    return Costs().seconds(model, (flops / _FLOPS + moved / _BYTES) * 1e3, _RUNS)


def _kept(suite: Suite, request: Request, store: ResultStore) -> Rewrites | None:
    """Stored graphs of all models of a suite; ``None`` if one is missing."""
    rewrites = Rewrites()
    for position, each in enumerate(suite.models):
        data = store.rewrite(each.signature, request.setup, request.fingerprint)
        if data is None:
            return None
        try:
            graph = unpacked(data, name=each.model.name, source=each.model.source)
        except DLBricksError:  # the stored graph is damaged: the backend rewrites the model again
            return None
        rewrites.graphs[position] = graph
    return rewrites
