"""Instances: workers on separate cores that compute at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from dlbricks_core.ir import CanonicalModel
from dlbricks_serving.contention.host import Played
from dlbricks_serving.pinned import PinnedWorker

_AHEAD_S = 0.02
"""Seconds between the request to all instances and their common start, so that each receives it."""


class Instance(PinnedWorker):
    """A worker on CPUs of its own, which may compute at the same time as others."""

    service = "dlbricks_serving.contention.host:PlayingHost"

    def hold(self, key: str, model: CanonicalModel) -> None:
        """Loads a network, unless it is loaded.

        Args:
            key: Key of the network.
            model: Model in canonical form.
        """
        if key not in self._networks:
            self.load(key, model)

    def play(
        self, keys: Sequence[str], begin_s: float, end_s: float, *, prepared: bool = False
    ) -> Played:
        """Runs networks repeatedly; see :meth:`PlayingHost.play`.

        The call does not wait until other workers rest. Each network must be loaded, or be one of
        :data:`~dlbricks_core.backends.burst.CALLS`.
        """
        held = [key for key in keys if key in self._networks]
        self._reload(held)
        seconds = max(end_s - perf_counter(), 0.0)
        timeout = self._settings.timeout_s + seconds + self._longest_s(held)
        asked = tuple(keys), begin_s, end_s, prepared
        played: Played = self._answer(self.start(), "play", *asked, timeout=timeout)
        return played


def play_together(
    instances: Sequence[Instance],
    keys: Sequence[Sequence[str]],
    seconds: float,
    prepared: Sequence[bool] | None = None,
) -> list[Played]:
    """Runs of several instances at the same time.

    Args:
        instances: The instances.
        keys: Keys of the networks that each instance runs, in order.
        seconds: Duration of the runs.
        prepared: Whether the runs of each instance are prepared; ``None`` for bare runs of all.

    Raises:
        DLBricksError: If an instance fails. The others complete their runs first.
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
