"""Records of a fleet: its hosts, what they are told to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlbricks_core.facts import Failure, System
from dlbricks_core.workflows.shares import Priced


@dataclass(frozen=True)
class Host:
    """A host of a fleet: one worker of Dask, that measures one share at a time.

    Attributes:
        address: Address of the worker, as Dask knows it.
        name: Name of the machine.
        system: The machine.
        version: Version of DLBricks there.
        backends: Version of each backend's framework there, by the backend's name.
        doing: What it does, for people; empty for nothing.
        since_s: Seconds since it began to do that.
        identity: What tells it from other hosts, also after it has left and joined again; empty of
            one that does not tell.
    """

    address: str
    name: str
    system: System
    version: str
    backends: Mapping[str, str]
    doing: str = ""
    since_s: float = 0.0
    identity: str = ""

    @property
    def key(self) -> str:
        """What it is known by: its identity, or the address if it tells none."""
        return self.identity or self.address

    @property
    def kind(self) -> str:
        """Kind of host: hosts of one kind measure alike."""
        return self.system.fingerprint

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


@dataclass(frozen=True)
class Gone:
    """A host that was there.

    Attributes:
        address: Address of the worker.
        name: Name of the machine.
        reason: How it left.
        identity: As for :class:`Host`.
    """

    address: str
    name: str
    reason: str
    identity: str = ""

    @property
    def key(self) -> str:
        """What it was known by, as for :attr:`Host.key`."""
        return self.identity or self.address


@dataclass(frozen=True)
class RunState:
    """How far a run of a fleet is.

    Attributes:
        suite: Name of the suite.
        backend: Name of the backend.
        bricks: Bricks to be measured, on all kinds of host; those of a kind that has not yet cut
            the suite are not known.
        done: Bricks that are done, failed ones included.
        left_s: Seconds until the end, as far as is known; ``None`` if it is not.
        seconds: Seconds since the run began.
    """

    suite: str
    backend: str
    bricks: int
    done: int
    left_s: float | None
    seconds: float


@dataclass(frozen=True)
class Fleet:
    """A fleet at a moment.

    Attributes:
        scheduler: Address of the scheduler.
        hosts: Hosts that are there.
        gone: Hosts that were there and left, also those that joined again.
        runs: Runs in progress.
    """

    scheduler: str
    hosts: Sequence[Host]
    gone: Sequence[Gone] = ()
    runs: Sequence[RunState] = ()

    @property
    def absent(self) -> list[Gone]:
        """Hosts that left and are not there again: each once, with how it left last."""
        there = {host.key for host in self.hosts}
        last = {each.key: each for each in self.gone}
        return [each for key, each in last.items() if key not in there]


@dataclass(frozen=True)
class Asked:
    """What a run asks of every kind of host: the options of ``bench``.

    A host makes its own request of it: what is left open depends on the host.

    Attributes:
        suite: Hash of the suite, by which hosts keep it.
        options: Arguments of :meth:`dlbricks_core.workflows.Request.of`, the budget excepted.
    """

    suite: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """One thing that a host is told to do, in a process of its own.

    Attributes:
        key: Unique name, another one for each try.
        asked: What the run asks for.
        share: Signatures to time; ``None`` to cut the suite, and to tell what there is to time.
        budget_s: Seconds for measuring, for the share alone; ``None`` for what the host chooses.
        deadline_s: Seconds after which the process is ended; waiting for other measurements on
            the host does not count.
    """

    key: str
    asked: Asked
    share: tuple[str, ...] | None
    budget_s: float | None
    deadline_s: float


@dataclass(frozen=True)
class Done:
    """What came of an order.

    Attributes:
        records: What the host's store holds of it, as a file that travels.
        bricks: What there is to time; of an order to cut.
        budget_s: Seconds for all of them, if the precision decides how many runs there are; of an
            order to cut.
        failures: Reason for each network that has no figure, by signature.
        unread: Models of the suite that could not be read there.
        measured: Number of networks that were timed now; the others were known.
        seconds: Seconds that it took, waiting excluded.
        warnings: Disturbances of the host.
    """

    records: bytes
    bricks: tuple[Priced, ...] = ()
    budget_s: float | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[Failure, ...] = ()
    measured: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostResult:
    """What a host did in a run.

    Attributes:
        host: The host.
        jobs: Shares that it finished.
        bricks: Bricks in them.
        seconds: Seconds that it measured.
        gone: How it left; empty if it is there.
        joined: How often it joined.
    """

    host: Host
    jobs: int
    bricks: int
    seconds: float
    gone: str = ""
    joined: int = 1


@dataclass(frozen=True)
class JobResult:
    """A share of the suite, and how it ended.

    Attributes:
        kind: Fingerprint of the kind of host.
        host: Name and address of the last host that tried.
        bricks: Number of its bricks.
        measured: Number of these that were timed in this run.
        tries: Number of hosts that tried, or of times that one did.
        seconds: Seconds of the last try.
        reason: Why there is no result; empty if there is.
    """

    kind: str
    host: str
    bricks: int
    measured: int
    tries: int
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class KindResult:
    """What is known of a suite on a kind of host.

    Attributes:
        system: A host of the kind.
        hosts: Number of hosts of the kind that finished something; one that left and joined again
            counts once.
        bricks: Bricks of the suite there.
        known: Bricks that have a figure.
        measured: Bricks that were timed in this run.
        seconds: Seconds of measuring, of all its hosts together.
        warnings: Disturbances of the hosts.
    """

    system: System
    hosts: int
    bricks: int
    known: int
    measured: int
    seconds: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class FleetResult:
    """What came of a run.

    Attributes:
        suite: Folder of the suite.
        backend: Name of the backend.
        scheduler: Address of the scheduler.
        kinds: Kinds of host.
        hosts: Hosts.
        jobs: Shares, in the order in which they ended.
        failures: What has no figure, and why.
        seconds: Seconds of the run.
    """

    suite: str
    backend: str
    scheduler: str
    kinds: Sequence[KindResult]
    hosts: Sequence[HostResult]
    jobs: Sequence[JobResult]
    failures: Sequence[Failure]
    seconds: float
