"""Passes: all bricks of a model one right after the other, in several instances at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from dlbricks_core.errors import BackendError
from dlbricks_core.facts import Observation
from dlbricks_core.measure.contention.host import Played
from dlbricks_core.measure.contention.instance import Instance

SLICES = 4
"""Parts of the time that instances play passes. All of them rest between two parts."""

_PASSES = 400
"""Passes of all instances that are enough: the 99th percentile has four beyond it."""

_SHORTEST_S, _LONGEST_S = 3.0, 12.0
"""Least and most seconds that instances play, unless passes are so long that few fit into them."""

_FEWEST = 3
"""Fewest passes that each part has time for."""

_AHEAD_S = 0.02
"""Seconds from asking instances to play until they begin: each must have heard of it."""


def play_passes(
    instances: Sequence[Instance],
    keys: Sequence[str],
    session: str,
    advance: Callable[[], None],
) -> list[Observation]:
    """What passes over a sequence of networks take while all instances run it.

    Args:
        instances: Instances that play at the same time.
        keys: Keys of networks that are loaded in each, in the order in which they run.
        session: Id of the session.
        advance: Called after each of the :data:`SLICES`.

    Returns:
        An observation for each part of the time, in milliseconds.

    Raises:
        BackendError: If no pass ended in time.
    """
    pass_s = sum(instances[0].latency_ms(key) for key in keys) / 1e3
    wanted_s = min(max(_PASSES * pass_s / len(instances), _SHORTEST_S), _LONGEST_S)
    seconds = max(wanted_s / SLICES, _FEWEST * pass_s)
    found = []
    for number in range(SLICES):
        played = play_together(instances, [keys] * len(instances), seconds)
        taken = tuple(float(ms) for each in played for ms in each.passes_ms)
        if taken:
            found.append(Observation(session, number, taken, spent_s=seconds))
        advance()
    if not found:
        raise BackendError(f"no pass over the bricks ended within {seconds:.1f} s")
    return found


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
        DLBricksError: If one of them fails. The others play to their end before.
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
