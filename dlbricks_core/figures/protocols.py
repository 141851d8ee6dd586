"""Protocols: number and order of runs, and the statistic of the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.statistics import FloatArray, Samples, faster_half, median, trimmed_mean

Condition = Literal["hot", "cold"]
"""Condition of a latency. Hot: the whole model in a loop of its own, as its user runs it.
Cold: after other networks, with weights that come from memory."""

TIMEOUT_S = 120.0
"""Default maximum seconds to load a network, or to run it once."""

CONDITIONS: tuple[Condition, ...] = get_args(Condition)

Statistic = Callable[[Samples], FloatArray]
"""Function that reduces the last axis of an array of samples."""


@dataclass(frozen=True)
class Protocol:
    """One way to measure.

    Attributes:
        name: Name that users type.
        identity: Part of the identity of every measurement. It changes whenever a change of
            the protocol would give other samples.
        runs: Number of samples of each network, unless the user gives another; ``None`` for
            as many as make the figures precise.
        interleaved: Whether all networks run once a round, in turn (True), or one
            after the other, each in a loop of its own (False).
        warm_io: Whether the inputs are brought into the cache before each run.
        statistic: Statistic of a network's samples.
        statistic_name: Name of the statistic, for people to read.
    """

    name: str
    identity: str
    runs: int | None
    interleaved: bool
    warm_io: bool
    statistic: Statistic
    statistic_name: str


#: Protocols by their names; the first is the default.
PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="interleaved",
            identity="interleaved/9",
            runs=None,
            interleaved=True,
            warm_io=True,
            statistic=faster_half,
            statistic_name="mean of the faster half",
        ),
        Protocol(
            name="paper",
            identity="paper/3",
            runs=100,
            interleaved=False,
            warm_io=False,
            statistic=trimmed_mean,
            statistic_name="20% trimmed mean",
        ),
    )
}


HOT = Protocol(
    name="hot",
    identity="hot/1",
    runs=None,
    interleaved=False,
    warm_io=False,
    statistic=median,
    statistic_name="median",
)
"""Whole models, each in a loop of its own, in a process with a user's settings, as in a plain
script. Bricks inside of them are known from the framework's profile."""


def protocol_named(name: str) -> Protocol:
    """The protocol of that name.

    Raises:
        DLBricksError: If there is none.
    """
    if name not in PROTOCOLS:
        raise DLBricksError(f"unknown protocol {name!r}", hint=f"Known: {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]
