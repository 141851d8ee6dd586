"""What is left to do in a run, and who does it next. Nothing here knows Dask, or a clock.

Every kind of host cuts the suite once, for what a framework makes of models depends on the kind.
Then its hosts take shares of the bricks, one at a time, until each brick is done or named missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from dlbricks_core.facts import Failure, System
from dlbricks_core.fleet.records import Asked, Done, Host, JobResult, KindResult, Order
from dlbricks_core.workflows.shares import Priced

SHARE_S = 60.0
"""Expected seconds of a share: what is lost with a host, at most, is about that. Much smaller ones
would take as long to begin, as each imports the framework anew."""

_TRIES = 3
"""Times that a share is tried where it ends its job, or its host, without a result."""

_CUT_S = 3600.0
"""Seconds within which a suite is cut: a framework is asked what it makes of each model."""

_BEGIN_S = 120.0
_SLOWER = 10.0
_LIMITS = 2
"""A share counts as hung after the seconds to begin, this many times those expected, and as many
limits of a single network, since each limit ends a network that hangs by itself."""


def shares_of(bricks: Sequence[Priced], hosts: int) -> list[tuple[Priced, ...]]:
    """Shares of about the same expected cost, each brick in one of them.

    Args:
        bricks: Bricks that are to be shared.
        hosts: Number of hosts.

    Returns:
        One share a host, or more where they would be long; bricks in their order.
    """
    if not bricks:
        return []
    total = sum(each.seconds for each in bricks)
    number = min(len(bricks), max(hosts, math.ceil(total / SHARE_S)))
    loads = [0.0] * number
    chosen: list[list[int]] = [[] for _ in loads]
    # The most expensive first, each to whom has least.
    for position in sorted(range(len(bricks)), key=lambda i: -bricks[i].seconds):
        least = loads.index(min(loads))
        loads[least] += bricks[position].seconds
        chosen[least].append(position)
    return [tuple(bricks[i] for i in sorted(each)) for each in chosen if each]


@dataclass
class _Share:
    """A share and what became of it.

    Attributes:
        bricks: Its bricks.
        tries: Number of tries so far.
        on: Last host that tried.
    """

    bricks: tuple[Priced, ...]
    tries: int = 0
    on: Host | None = None

    @property
    def seconds(self) -> float:
        """Seconds that it is expected to take."""
        return sum(each.seconds for each in self.bricks)


@dataclass
class _Kind:
    """A kind of host.

    Attributes:
        system: A host of the kind.
        hosts: Keys of its hosts, those that left included.
        took_part: Keys of those that finished something.
        cut: The try to cut the suite, as a share without bricks.
        bricks: What there is to time; ``None`` until the suite is cut.
        budget_s: Seconds for all of it, where the precision decides.
        todo: Shares that nobody does.
        known: Signatures that have a figure.
        measured: Number of networks that were timed.
        seconds: Seconds of all jobs.
        expected_s: Seconds that the finished shares were expected to take.
        failed: Signatures that have none, after all tries.
        failures: What has no figure, and why.
        warnings: Disturbances.
        ended: Whether nothing more is tried.
    """

    system: System
    hosts: set[str] = field(default_factory=set)
    took_part: set[str] = field(default_factory=set)
    cut: _Share | None = field(default_factory=lambda: _Share(()))
    bricks: Mapping[str, Priced] | None = None
    budget_s: float | None = None
    todo: list[_Share] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    measured: int = 0
    seconds: float = 0.0
    expected_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    ended: bool = False


class Campaign:
    """A run: what each kind of host has still to do.

    Args:
        asked: What the run asks for.
        timeout_s: Longest time in seconds that a network may take to load or to run once.
        deadline_s: Seconds that a share may take; ``None`` to derive them from those expected.

    Attributes:
        jobs: Shares that ended.
        refusals: Reason why a kind of host cannot do it at all, by its fingerprint.
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
        """Takes a host into the run; one of a new kind brings the suite to be measured there."""
        kind = self._kinds.setdefault(host.kind, _Kind(host.system))
        kind.hosts.add(host.key)

    def next_for(self, host: Host, prefix: str) -> Order | None:
        """What a host does next; ``None`` if there is nothing for it now.

        Args:
            host: A host that does nothing.
            prefix: Beginning of the order's key, the run's own.
        """
        kind = self._kinds[host.kind]
        if kind.ended:
            return None
        if kind.bricks is None:
            share, kind.cut = kind.cut, None
        else:
            # Whoever failed at a share leaves it to others, if there is another one for itself.
            kind.todo.sort(key=lambda each: each.on is not None and each.on.kind == host.kind
                           and each.on.key == host.key)  # fmt: skip
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
        """The share's part of the seconds for all."""
        if kind.budget_s is None or kind.bricks is None or not share.bricks:
            return None
        return kind.budget_s * share.seconds / sum(each.seconds for each in kind.bricks.values())

    def _deadline(self, kind: _Kind, share: _Share) -> float:
        if self._deadline_s is not None:
            return self._deadline_s
        if not share.bricks:
            return _CUT_S
        expected = max(share.seconds, self._budget_s(kind, share) or 0.0)
        return _BEGIN_S + _SLOWER * expected + _LIMITS * self._timeout_s

    def done(self, key: str, done: Done) -> None:
        """Notes what came of an order."""
        host, share = self._doing.pop(key)
        kind = self._kinds[host.kind]
        kind.took_part.add(host.key)
        kind.seconds += done.seconds
        kind.warnings |= dict.fromkeys(done.warnings)
        if kind.bricks is None:
            kind.failures += done.unread
            kind.bricks = {each.signature: each for each in done.bricks}
            kind.budget_s = done.budget_s
            kind.todo = [_Share(each) for each in shares_of(done.bricks, len(kind.hosts))]
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
        """Notes that a kind of host cannot do it at all: another try would end alike."""
        host, share = self._doing.pop(key)
        kind = self._kinds[host.kind]
        if kind.bricks is None:
            self.refusals[host.kind] = reason
            kind.ended = True
            kind.failures.append(Failure(_kind_name(kind), reason, "measure"))
        else:
            self._give_up(kind, share, reason)

    def lost(self, key: str, reason: str, *, blames: bool = True) -> None:
        """Notes that an order ended without a result; somebody tries again.

        Args:
            key: Key of the order.
            reason: Why.
            blames: Whether the order may be to blame, so that it is not tried for ever.
        """
        host, share = self._doing.pop(key)
        kind = self._kinds[host.kind]
        if not blames:
            share.tries -= 1
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
        """Notes that nobody is left who could do what is left for a kind."""
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
        """Kinds of host for which something is left."""
        return [name for name, kind in self._kinds.items() if self._is_unfinished(name, kind)]

    def _is_unfinished(self, name: str, kind: _Kind) -> bool:
        at_work = any(host.kind == name for host, _ in self._doing.values())
        return at_work or bool(kind.todo) or (kind.bricks is None and not kind.ended)

    def is_cut(self, host: Host) -> bool:
        """Whether it is known what hosts of this kind have to time."""
        return self._kinds[host.kind].bricks is not None

    def bricks_of(self, key: str) -> int:
        """Number of bricks of an order that is being done; 0 for one that cuts the suite."""
        return len(self._doing[key][1].bricks)

    @property
    def bricks(self) -> int:
        """Number of bricks on all kinds of host, as far as is known."""
        return sum(len(kind.bricks or ()) for kind in self._kinds.values())

    @property
    def ended_bricks(self) -> int:
        """Number of bricks that are done or given up."""
        return sum(len(kind.known) + len(kind.failed) for kind in self._kinds.values())

    def left_s(self, hosts: Iterable[Host]) -> float | None:
        """Seconds until the end, if all goes on as before; ``None`` if that is not known.

        Args:
            hosts: Hosts that are there.
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
            slower = kind.seconds / kind.expected_s if kind.expected_s else 1.0
            left.append(open_s * slower / there.count(name))
        return max(left, default=0.0)

    @property
    def failures(self) -> list[Failure]:
        """What has no figure."""
        return [each for kind in self._kinds.values() for each in dict.fromkeys(kind.failures)]

    @property
    def kinds(self) -> list[KindResult]:
        """What is known of the suite on each kind of host."""
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
