"""Campaigns: the work that is left in a run, and the host that takes it next.

This module uses neither Dask nor a clock. One host of each kind first cuts the suite into bricks,
because the framework rewrites models differently on each kind. The hosts of the kind then time
shares of the bricks, one share at a time, until each brick is timed or reported as failed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle

from dlbricks_core.facts import Failure, Note, System
from dlbricks_fleet.records import Asked, Done, Host, JobResult, KindResult, Order
from dlbricks_fleet.shares import Priced

SHARE_S = 60.0
"""Expected seconds of a share: about as much as is lost with a host. Much shorter shares would
spend most of their time on importing the framework.
"""

_IMPORT_S = 5.0
"""Usual seconds in which a share's process imports the framework and begins to time."""

_TRIES = 3
"""Maximum tries of a share whose job or host ends without a result."""

_CUT_S = 3600.0
"""Maximum seconds to cut a suite, for which the framework rewrites each model."""

_BEGIN_S = 120.0
_SLOWER = 10.0
_LIMITS = 2
"""Factor in the deadline of a share: the seconds to begin, then this many times the expected
seconds, and this many times the limit of a single network. A network that hangs is ended by its own
limit.
"""


def shares_of(bricks: Sequence[Priced], hosts: int) -> list[tuple[Priced, ...]]:
    """Shares of about equal expected cost. Each brick belongs to one share.

    Args:
        bricks: Bricks to divide among the hosts.
        hosts: Number of hosts.

    Returns:
        One share for each host, or several if one share would take too long. Bricks keep their
        order.
    """
    if not bricks:
        return []
    total = sum(each.seconds for each in bricks)
    number = min(len(bricks), max(hosts, math.ceil(total / SHARE_S)))
    loads = [0.0] * number
    chosen: list[list[int]] = [[] for _ in loads]
    # The most expensive brick goes first, each to the share with the least cost.
    for position in sorted(range(len(bricks)), key=lambda i: -bricks[i].seconds):
        least = loads.index(min(loads))
        loads[least] += bricks[position].seconds
        chosen[least].append(position)
    return [tuple(bricks[i] for i in sorted(each)) for each in chosen if each]


@dataclass
class _Share:
    """A share and its progress."""

    bricks: tuple[Priced, ...]  #: Bricks of the share.
    owner: str = ""  #: Key of the host that takes it before others.
    tries: int = 0  #: Number of tries so far.
    on: Host | None = None  #: Last host that tried.
    #: Key of the host on which the last try failed, perhaps because of the share; empty if none
    #: did.
    blamed: str = ""

    @property
    def seconds(self) -> float:
        """Expected seconds of the share."""
        return sum(each.seconds for each in self.bricks)


@dataclass
class _Kind:
    """A kind of host."""

    system: System  #: System of one host of the kind.
    #: Keys of all hosts of the kind, including those that left.
    hosts: set[str] = field(default_factory=set)
    #: Keys of the hosts that finished a share or cut the suite.
    took_part: set[str] = field(default_factory=set)
    #: Attempt to cut the suite, as a share without bricks.
    cut: _Share | None = field(default_factory=lambda: _Share(()))
    bricks: Mapping[str, Priced] | None = None  #: Bricks to time; ``None`` until the suite is cut.
    #: Seconds for measuring all bricks, where a precision decides the number of runs.
    budget_s: float | None = None
    todo: list[_Share] = field(default_factory=list)  #: Shares that no host has taken.
    known: set[str] = field(default_factory=set)  #: Signatures that have a figure.
    failed: set[str] = field(default_factory=set)  #: Signatures without a figure after all tries.
    measured: int = 0  #: Number of networks that were timed.
    seconds: float = 0.0  #: Total seconds of all jobs.
    expected_s: float = 0.0  #: Expected seconds of the finished shares.
    #: Networks without a figure, with the reason.
    failures: list[Failure] = field(default_factory=list)
    warnings: dict[Note, None] = field(default_factory=dict)  #: Disturbances of the hosts.
    ended: bool = False  #: Whether no further share will be tried.


class Campaign:
    """The state of a run: the work that is left for each kind of host.

    Args:
        asked: Requested work of the run.
        timeout_s: Longest time in seconds that a network may take to load or to run once.
        deadline_s: Maximum seconds of a share; ``None`` to derive the limit from the expected
            seconds.

    Attributes:
        jobs: Finished and failed shares.
        refusals: Reason why a kind of host cannot measure the suite, by the fingerprint of the
            kind.
    """

    def __init__(self, asked: Asked, timeout_s: float, deadline_s: float | None = None) -> None:
        self.jobs: list[JobResult] = []
        self.refusals: dict[str, str] = {}
        self._asked = asked
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._kinds: dict[str, _Kind] = {}
        self._doing: dict[str, tuple[Host, _Share]] = {}
        self._numbers = count()

    def meet(self, host: Host) -> None:
        """Adds a host to the run. A host of a new kind adds that kind."""
        kind = self._kinds.setdefault(host.kind, _Kind(host.system))
        kind.hosts.add(host.key)

    def next_for(self, host: Host, prefix: str) -> Order | None:
        """Next order for an idle host; ``None`` if there is none now.

        Args:
            host: The idle host.
            prefix: Prefix of the order's key, unique to the run.
        """
        kind = self._kinds[host.kind]
        if kind.ended:
            return None
        if kind.bricks is None:
            share, kind.cut = kind.cut, None
        else:
            # A host that failed at a share leaves it to others, if another share is left for it.
            kind.todo.sort(key=lambda each: (each.blamed == host.key, each.owner != host.key))
            share = kind.todo.pop(0) if kind.todo else None
        if share is None:
            return None
        share.on, share.tries = host, share.tries + 1
        order = Order(
            f"{prefix}-{next(self._numbers)}",
            self._asked,
            tuple(each.signature for each in share.bricks) if share.bricks else None,
            self._budget_s(kind, share),
            self._deadline(kind, share),
        )
        self._doing[order.key] = host, share
        return order

    def _budget_s(self, kind: _Kind, share: _Share) -> float | None:
        """Part of the kind's measuring budget that a share gets, in seconds."""
        if kind.budget_s is None or kind.bricks is None or not share.bricks:
            return None
        total = sum(each.seconds for each in kind.bricks.values())
        # A host may expect no time at all.
        return kind.budget_s * share.seconds / total if total else None

    def _deadline(self, kind: _Kind, share: _Share) -> float:
        if self._deadline_s is not None:
            return self._deadline_s
        if not share.bricks:
            return _CUT_S
        expected = max(share.seconds, self._budget_s(kind, share) or 0.0)
        return _BEGIN_S + _SLOWER * expected + _LIMITS * self._timeout_s

    def done(self, key: str, done: Done) -> None:
        """Records the result of an order."""
        host, share = self._doing.pop(key)
        kind = self._kinds[host.kind]
        kind.took_part.add(host.key)
        kind.seconds += done.seconds
        kind.warnings |= dict.fromkeys(done.warnings)
        if kind.bricks is None:
            kind.failures += done.unread
            kind.bricks = {each.signature: each for each in done.bricks}
            kind.budget_s = done.budget_s
            # A later run assigns shares to hosts that already have samples of them.
            owners = cycle(sorted(kind.hosts))
            shares = shares_of(done.bricks, len(kind.hosts))
            kind.todo = [_Share(*each) for each in zip(shares, owners, strict=False)]
            return
        kind.measured += done.measured
        kind.expected_s += share.seconds
        for each in share.bricks:
            reason = done.failures.get(each.signature)
            if reason is None:
                kind.known.add(each.signature)
            else:
                kind.failed.add(each.signature)
                kind.failures.append(self._failure(kind, each, reason))
        self._ended(kind, share, done)

    def refused(self, key: str, reason: str) -> None:
        """Records that a kind of host cannot measure the suite, so that it is not tried again."""
        host, share = self._doing.pop(key)
        kind = self._kinds[host.kind]
        if kind.bricks is None:
            self.refusals[host.kind] = reason
            kind.ended = True
            kind.failures.append(Failure(_kind_name(kind), reason, "measure"))
        else:
            self._give_up(kind, share, reason)

    def lost(self, key: str, reason: str, *, blames: bool = True) -> None:
        """Records that an order ended without a result, and queues its share again.

        Args:
            key: Key of the order.
            reason: Why there is no result.
            blames: Whether the order itself may be the cause. Only then does the try count towards
                the maximum number of tries.
        """
        host, share = self._doing.pop(key)
        kind = self._kinds[host.kind]
        if blames:
            share.blamed = host.key
        else:  # the host holds the samples that it took
            share.tries -= 1
            share.owner, share.blamed = host.key, ""
        if share.tries < _TRIES:
            if share.bricks:
                kind.todo.append(share)
            else:
                kind.cut = share
        elif share.bricks:
            self._give_up(kind, share, f"{reason} (on {host}; tried {share.tries} times)")
        else:
            self.abandon(host.kind, f"cutting the suite: {reason} (on {host})")

    def abandon(self, kind_name: str, reason: str) -> None:
        """Gives up a kind of host: no host is left for its remaining work."""
        kind = self._kinds[kind_name]
        for share in kind.todo:
            self._give_up(kind, share, reason)
        if kind.bricks is None:
            kind.failures.append(Failure(_kind_name(kind), reason, "measure"))
        kind.todo, kind.ended = [], True

    def _give_up(self, kind: _Kind, share: _Share, reason: str) -> None:
        for each in share.bricks:
            kind.failed.add(each.signature)
            kind.failures.append(self._failure(kind, each, reason))
        self._ended(kind, share, None, reason)

    def _ended(self, kind: _Kind, share: _Share, done: Done | None, reason: str = "") -> None:
        self.jobs.append(
            JobResult(
                kind.system.fingerprint,
                str(share.on or ""),
                len(share.bricks),
                done.measured if done else 0,
                share.tries,
                done.seconds if done else 0.0,
                reason,
            )
        )

    def _failure(self, kind: _Kind, brick: Priced, reason: str) -> Failure:
        name = f"{brick.name} ({brick.signature[:8]})"
        if len(self._kinds) > 1:
            return Failure(_kind_name(kind), reason, "measure", name)
        return Failure(name, reason, "measure")

    @property
    def unfinished(self) -> list[str]:
        """Names of the kinds of host with work left."""
        return [name for name, kind in self._kinds.items() if self._is_unfinished(name, kind)]

    def _is_unfinished(self, name: str, kind: _Kind) -> bool:
        at_work = any(host.kind == name for host, _ in self._doing.values())
        return at_work or bool(kind.todo) or (kind.bricks is None and not kind.ended)

    def is_cut(self, host: Host) -> bool:
        """Whether the suite has been cut for the kind of a host."""
        return self._kinds[host.kind].bricks is not None

    def bricks_of(self, key: str) -> int:
        """Number of bricks in an order in progress; 0 for an order to cut the suite."""
        return len(self._doing[key][1].bricks)

    @property
    def bricks(self) -> int:
        """Number of bricks on all kinds of host whose suite has been cut."""
        return sum(len(kind.bricks or ()) for kind in self._kinds.values())

    @property
    def ended_bricks(self) -> int:
        """Number of bricks that were timed or given up."""
        return sum(len(kind.known) + len(kind.failed) for kind in self._kinds.values())

    def left_s(self, hosts: Iterable[Host]) -> float | None:
        """Estimated seconds until the run ends, at the pace so far; ``None`` if unknown.

        Args:
            hosts: Hosts that are connected.
        """
        there = [host.kind for host in hosts]
        left: list[float] = []
        for name in self.unfinished:
            kind = self._kinds[name]
            if kind.bricks is None or not there.count(name):
                return None
            open_s = sum(
                each.seconds
                for each in kind.bricks.values()
                if each.signature not in kind.known | kind.failed
            )
            if kind.expected_s:
                open_s *= kind.seconds / kind.expected_s
            else:  # the time to begin a share is not measured yet
                open_s += _IMPORT_S * self._open_shares(name)
            left.append(open_s / there.count(name))
        return max(left, default=0.0)

    def _open_shares(self, name: str) -> int:
        """Number of shares of a kind of host that have not ended."""
        at_work = sum(host.kind == name for host, _ in self._doing.values())
        return at_work + len(self._kinds[name].todo)

    @property
    def failures(self) -> list[Failure]:
        """Networks without a figure, with the reason."""
        return [each for kind in self._kinds.values() for each in dict.fromkeys(kind.failures)]

    @property
    def kinds(self) -> list[KindResult]:
        """Results for each kind of host."""
        return [
            KindResult(
                kind.system,
                len(kind.took_part),
                len(kind.bricks or ()),
                len(kind.known),
                kind.measured,
                kind.seconds,
                tuple(kind.warnings),
            )
            for kind in self._kinds.values()
        ]


def _kind_name(kind: _Kind) -> str:
    return f"{kind.system.cpu or 'unknown processor'} ({kind.system.fingerprint})"
