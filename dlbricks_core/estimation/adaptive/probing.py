"""Probes: the first networks on an unknown system, timed to characterize it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dlbricks_core.estimation.adaptive.acquisition import Choice
from dlbricks_core.estimation.adaptive.posterior import State
from dlbricks_core.estimation.adaptive.timings import TimingWorker
from dlbricks_core.estimation.results import Characterized
from dlbricks_core.facts.note import warning
from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.request import Request
from dlbricks_core.predict import MeasuredNetworks, usual_predictor

BATCH = 5
"""Number of probes that are chosen at a time. Their results determine the next choice."""

WIDENS_FROM = 1.05
"""Factor by which probes must widen other intervals before they count as contradictions. Networks
within 15% of their expectation counted as such, although other intervals stayed at ±28%.
"""

_MOST = 10
"""Maximum number of probes. In leave-one-system-out tests, ten probes removed most of the error,
and thirty hardly more (research/2026-11-25-systems.md).
"""

_SHARE, _MOST_S = 0.1, 10.0
"""Maximum share of the budget, and maximum seconds, for probes. Most probes are small, and ten take
two or three seconds. Later estimates on the system benefit from them, but a user of one model must
not wait for this.
"""


def probes_for(request: Request, atlas: Collection[MeasuredNetworks]) -> Mapping[str, Target]:
    """Networks of the predictor that may characterize the system; empty for a known system.

    A system is known if any network was measured on it, with the backend and the same number of
    threads.

    Args:
        request: How and where networks run.
        atlas: Measurements with the backend on all systems.
    """
    place = request.fingerprint, request.setup.threads
    known = any((each.system.fingerprint, each.setup.threads) == place for each in atlas)
    if known:
        return {}
    probes = usual_predictor().probes()
    return {brick.signature: Target(brick, "brick", group) for brick, group in probes}


class Probing:
    """The first phase of adaptive measuring, on an unknown system.

    Args:
        bench: The bench that times networks.

    Attributes:
        widths: Largest half-width of the models' intervals at each turn.
        seconds: Seconds spent on probes, without the start of the framework.
    """

    def __init__(self, bench: TimingWorker) -> None:
        self.widths: list[float] = []
        self.seconds = 0.0
        self._bench = bench
        self._tried: set[str] = set()
        self._batch: list[str] = []
        self._share_s = 0.0
        self._over = not bench.subjects.probes

    def turn(self, state: State, left_s: float) -> bool:
        """Times the next few probes. Returns whether there were any.

        Args:
            state: The present posterior.
            left_s: Remaining seconds of the budget.
        """
        if self._over:
            return False
        if not self.widths:
            self._share_s = min(_MOST_S, _SHARE * (left_s - self._bench.start_s))
        if self._widened(state):
            return True
        self.widths.append(state.widest)
        batch = self._next(state)
        self._over = not batch
        if batch:
            self._bench.time(batch)
            self._tried |= {*batch}
            self._batch = batch
            self.seconds = self._bench.ledger.effort.seconds["brick"]
        return bool(batch)

    def _widened(self, state: State) -> bool:
        """Whether the last probes widened other intervals; such probes are dropped and named."""
        batch, self._batch = [s for s in self._batch if self._teaches(s)], []
        if not batch or state.widest <= WIDENS_FROM * self.widths[-1]:
            return False
        names = [self._bench.subjects.every[s].operators[0] for s in batch]
        self._bench.drop(batch, warning("widens-others", networks=list(dict.fromkeys(names))))
        self._over = True
        return True

    def _teaches(self, signature: str) -> bool:
        figure = self._bench.known.get(signature)
        return figure is not None and figure.teaches

    def _next(self, state: State) -> list[str]:
        precision, left = self._bench.precision, _MOST - len(self._tried)
        if state.widest <= precision or left <= 0:
            return []
        # The cost of timing on this system is unknown before the first batch.
        spare_s = self._share_s - self.seconds if self._tried else self._share_s / 2
        choice = Choice.of(state, self._bench, probing=True)
        return choice.first(min(left, BATCH), precision, spare_s)

    def found(self) -> Characterized | None:
        """Summary of the probes; ``None`` if there were none."""
        networks = len(self._tried & self._bench.known.keys())
        if not networks:
            return None
        return Characterized(networks, self.seconds, self.widths[0], self.widths[-1])
