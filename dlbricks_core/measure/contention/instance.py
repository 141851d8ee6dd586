"""Instances: workers on cores of their own that compute at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.contention.host import Played
from dlbricks_core.measure.pinned import PinnedWorker

_AHEAD_S = 0.02
"""Seconds from asking instances to play until they begin: each must have heard of it."""


class Instance(PinnedWorker):
    """A worker on CPUs of its own, which may compute while others do."""

    service = "dlbricks_core.measure.contention.host:PlayingHost"

    def hold(self, key: str, model: CanonicalModel) -> None:
        """Loads a network, unless that is done.

        Args:
            key: Key of the network.
            model: In canonical form.
        """
        if key not in self._networks:
            self.load(key, model)

    def play(
        self, keys: Sequence[str], begin_s: float, end_s: float, *, prepared: bool = False
    ) -> Played:
        """Runs networks over and over; see :meth:`PlayingHost.play`.

        It does not wait for other workers to rest. The networks are loaded, or in
        :data:`~dlbricks_core.backends.host.CALLS`.
        """
        held = [key for key in keys if key in self._networks]
        self._reload(held)
        seconds = max(end_s - perf_counter(), 0.0)
        timeout = self._settings.timeout_s + seconds + self._longest_s(held)
        asked = tuple(keys), begin_s, end_s, prepared
        played: Played = self._answer(self._started(), "play", *asked, timeout=timeout)
        return played


def play_together(
    instances: Sequence[Instance],
    keys: Sequence[Sequence[str]],
    seconds: float,
    prepared: Sequence[bool] | None = None,
) -> list[Played]:
    """What several instances run at the same time.

    Args:
        instances: The instances.
        keys: Keys of the networks that each runs, in order.
        seconds: How long they run.
        prepared: Whether the runs of each are prepared; ``None`` for none.

    Raises:
        DLBricksError: If one of them fails. The others play to their end first.
    """
    begin_s = perf_counter() + _AHEAD_S
    with ThreadPoolExecutor(len(instances)) as pool:
        playing = [
            pool.submit(each.play, own, begin_s, begin_s + seconds, prepared=first)
            for each, own, first in zip(
                instances, keys, prepared or [False] * len(instances), strict=True
            )
        ]
    return [each.result() for each in playing]
