"""Records of a fleet: hosts, orders to them, and results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self, get_args

from dlbricks_core.facts import Failure, Note, System
from dlbricks_core.facts.checks import checked, number, number_if_known
from dlbricks_core.facts.note import PLUGIN, warning
from dlbricks_core.facts.observation import Stage
from dlbricks_core.report.notes import text
from dlbricks_fleet.shares import Priced


@dataclass(frozen=True)
class Host:
    """A host of a fleet: a worker of Dask that measures one share at a time.

    Attributes:
        address: Address of the worker, as Dask knows it.
        name: Name of the machine.
        system: The machine.
        version: Version of DLBricks there.
        backends: Version of each backend's framework there, by the backend's name.
        doing: Present activity in words; empty for an idle host.
        since_s: Seconds since that activity began.
        identity: Identity of the host, which stays the same when it leaves and joins again; empty
            for a worker of an earlier version, which reports none.
        certified: Whether a certificate vouches for the name.
    """

    address: str
    name: str
    system: System
    version: str
    backends: Mapping[str, str]
    doing: str = ""
    since_s: float = 0.0
    identity: str = ""
    certified: bool = False

    @property
    def key(self) -> str:
        """Identity of the host, or its address if the identity is unknown."""
        return self.identity or self.address

    @property
    def kind(self) -> str:
        """Name of the host's kind. Hosts of one kind share their measurements."""
        return self.system.fingerprint

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


@dataclass(frozen=True)
class Gone:
    """A host that has left the fleet.

    Attributes:
        address: Address of the worker.
        name: Name of the machine.
        reason: Why the host left.
        identity: As for :class:`Host`.
    """

    address: str
    name: str
    reason: str
    identity: str = ""

    @property
    def key(self) -> str:
        """Identity of the host, or its address if the identity is unknown."""
        return self.identity or self.address


@dataclass(frozen=True)
class RunState:
    """Progress of a run.

    Attributes:
        suite: Name of the suite.
        backend: Name of the backend.
        bricks: Number of bricks to time, on all kinds of host. A kind whose suite is not yet cut
            counts none.
        done: Number of bricks that were timed or failed.
        left_s: Estimated seconds until the run ends; ``None`` if unknown.
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
    """The state of a fleet at one moment.

    Attributes:
        scheduler: Address of the scheduler.
        hosts: Hosts that are connected.
        gone: Hosts that have left, including those that have joined again since.
        runs: Runs in progress.
    """

    scheduler: str
    hosts: Sequence[Host]
    gone: Sequence[Gone] = ()
    runs: Sequence[RunState] = ()

    @property
    def absent(self) -> list[Gone]:
        """Hosts that left and have not joined again. Each occurs once, with its last reason."""
        there = {host.key for host in self.hosts}
        last = {each.key: each for each in self.gone}
        return [each for key, each in last.items() if key not in there]


@dataclass(frozen=True)
class Asked:
    """Settings of a run for every kind of host: the options of ``bench``.

    Each host derives its own request, because defaults such as the number of threads depend on the
    host.

    Attributes:
        suite: Hash of the suite, under which hosts keep its files.
        options: Arguments of :meth:`dlbricks_core.measure.request.Request.of` except the budget.
    """

    suite: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """An instruction to a host, carried out in a process of its own.

    Attributes:
        key: Unique name of this try.
        asked: Settings of the run.
        share: Signatures of the bricks to time; ``None`` to cut the suite and to list its bricks.
        budget_s: Seconds for measuring the share; ``None`` for the host's default.
        deadline_s: Seconds after which the process is ended. Waiting for other measurements on
            the host does not count.
    """

    key: str
    asked: Asked
    share: tuple[str, ...] | None
    budget_s: float | None
    deadline_s: float

    def to_plain(self) -> dict[str, Any]:
        """The order as plain data."""
        asked = {"suite": self.asked.suite, "options": dict(self.asked.options)}
        return {**vars(self), "asked": asked}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_plain`; errors as of :meth:`Done.from_plain`."""
        asked, share = checked(data["asked"], dict, "asked"), data["share"]
        return cls(
            checked(data["key"], str, "key"),
            Asked(checked(asked["suite"], str), checked(asked["options"], dict)),
            None if share is None else _texts(share),
            number_if_known(data["budget_s"], "budget_s"),
            number(data["deadline_s"], "deadline_s"),
        )


@dataclass(frozen=True)
class Done:
    """The result of an order.

    Attributes:
        records: Measurements of the order in the host's store, as an exported file.
        bricks: Bricks of the suite, for an order to cut it.
        budget_s: Seconds for measuring all bricks, for an order to cut the suite where a precision
            decides the number of runs.
        failures: Reason for each network without a figure, by signature.
        unread: Models of the suite that the host could not read.
        measured: Number of networks that were timed; the store held the figures of the others.
        seconds: Duration in seconds without waiting.
        warnings: Disturbances of the host.
    """

    records: bytes
    bricks: tuple[Priced, ...] = ()
    budget_s: float | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[Failure, ...] = ()
    measured: int = 0
    seconds: float = 0.0
    warnings: tuple[Note, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            **vars(self),
            "bricks": [asdict(each) for each in self.bricks],
            "failures": dict(self.failures),
            "unread": [asdict(each) for each in self.unread],
            "warnings": [each.to_dict() for each in self.warnings],
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_plain`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is out of range.
        """
        return cls(
            records=checked(data["records"], bytes, "records"),
            bricks=tuple(map(_priced, data["bricks"])),
            budget_s=number_if_known(data["budget_s"], "budget_s"),
            failures={
                checked(name, str): checked(why, str)
                for name, why in checked(data["failures"], dict, "failures").items()
            },
            unread=tuple(map(_failure, data["unread"])),
            measured=checked(data["measured"], int, "measured"),
            seconds=number(data["seconds"], "seconds"),
            warnings=tuple(map(_warning, data["warnings"])),
        )


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(checked(each, str) for each in values)


def _warning(data: Any) -> Note:
    if isinstance(data, str):  # a host with an earlier version
        return warning(PLUGIN, text=data)
    found = Note.from_dict(data)
    json.dumps(data, allow_nan=False)
    try:
        text(found)
    except (ArithmeticError, AttributeError, LookupError) as error:
        raise ValueError(f"a note {found.code!r:.40} that has no sentence") from error
    return found


def _priced(data: Any) -> Priced:
    signature, name = (checked(data[each], str, each) for each in ("signature", "name"))
    return Priced(signature, name, number(data["seconds"], "seconds"))


def _failure(data: Any) -> Failure:
    if data["stage"] not in get_args(Stage):
        raise ValueError("stage")
    texts = {
        each: checked(data[each], str, each) for each in ("subject", "reason", "part", "backend")
    }
    return Failure(**texts, stage=data["stage"], layers=checked(data["layers"], int, "layers"))


@dataclass(frozen=True)
class HostResult:
    """The contribution of a host to a run.

    Attributes:
        host: The host.
        jobs: Number of shares that the host finished.
        bricks: Number of bricks in these shares.
        seconds: Seconds of measuring.
        gone: Why the host left; empty if it is still connected.
        joined: Number of times that the host joined.
    """

    host: Host
    jobs: int
    bricks: int
    seconds: float
    gone: str = ""
    joined: int = 1


@dataclass(frozen=True)
class JobResult:
    """A share of the suite and its outcome.

    Attributes:
        kind: Fingerprint of the kind of host.
        host: Name and address of the last host that tried.
        bricks: Number of bricks in the share.
        measured: Number of these bricks that were timed in this run.
        tries: Number of tries, on whichever hosts.
        seconds: Seconds of the last try.
        reason: Why there is no result; empty if there is one.
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
    """The results of a suite on one kind of host.

    Attributes:
        system: System of one host of the kind.
        hosts: Number of hosts of the kind that took part. A host that left and joined again counts
            once.
        bricks: Number of bricks of the suite on this kind of host.
        known: Number of bricks that have a figure.
        measured: Number of bricks that were timed in this run.
        seconds: Total seconds of measuring on all hosts of the kind.
        warnings: Disturbances of the hosts.
    """

    system: System
    hosts: int
    bricks: int
    known: int
    measured: int
    seconds: float
    warnings: tuple[Note, ...] = ()


@dataclass(frozen=True)
class FleetResult:
    """The result of a run.

    Attributes:
        suite: Folder of the suite.
        backend: Name of the backend.
        scheduler: Address of the scheduler.
        kinds: Kinds of host.
        hosts: Hosts.
        jobs: Shares in the order in which they ended.
        failures: Networks without a figure, with the reason.
        seconds: Duration of the run in seconds.
    """

    suite: str
    backend: str
    scheduler: str
    kinds: Sequence[KindResult]
    hosts: Sequence[HostResult]
    jobs: Sequence[JobResult]
    failures: Sequence[Failure]
    seconds: float
