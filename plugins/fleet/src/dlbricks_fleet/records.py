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
    """A host of a fleet: a worker of Dask that measures one share at a time."""

    address: str  #: Address of the worker, as Dask knows it.
    name: str  #: Name of the machine.
    system: System  #: The machine.
    version: str  #: Version of DLBricks there.
    #: Version of each backend's framework there, by the backend's name.
    backends: Mapping[str, str]
    doing: str = ""  #: Present activity in words; empty for an idle host.
    since_s: float = 0.0  #: Seconds since that activity began.
    #: Identity of the host, which stays the same when it leaves and joins again; empty for a worker
    #: of an earlier version, which reports none.
    identity: str = ""
    certified: bool = False  #: Whether a certificate vouches for the name.

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
    """A host that has left the fleet."""

    address: str  #: Address of the worker.
    name: str  #: Name of the machine.
    reason: str  #: Why the host left.
    identity: str = ""  #: As for :class:`Host`.

    @property
    def key(self) -> str:
        """Identity of the host, or its address if the identity is unknown."""
        return self.identity or self.address


@dataclass(frozen=True)
class RunState:
    """Progress of a run."""

    suite: str  #: Name of the suite.
    backend: str  #: Name of the backend.
    #: Number of bricks to time, on all kinds of host. A kind whose suite is not yet cut counts
    #: none.
    bricks: int
    done: int  #: Number of bricks that were timed or failed.
    left_s: float | None  #: Estimated seconds until the run ends; ``None`` if unknown.
    seconds: float  #: Seconds since the run began.

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        """Run of a client; errors as of :meth:`Done.from_plain`."""
        return cls(
            suite=checked(data["suite"], str, "suite"),
            backend=checked(data["backend"], str, "backend"),
            bricks=checked(data["bricks"], int, "bricks"),
            done=checked(data["done"], int, "done"),
            left_s=number_if_known(data["left_s"], "left_s"),
            seconds=number(data["seconds"], "seconds"),
        )


@dataclass(frozen=True)
class Fleet:
    """The state of a fleet at one moment."""

    scheduler: str  #: Address of the scheduler.
    hosts: Sequence[Host]  #: Hosts that are connected.
    #: Hosts that have left, including those that have joined again since.
    gone: Sequence[Gone] = ()
    runs: Sequence[RunState] = ()  #: Runs in progress.

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
    """

    suite: str  #: Hash of the suite, under which hosts keep its files.
    #: Arguments of :meth:`dlbricks_core.measure.request.Request.of` except the budget.
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """An instruction to a host, carried out in a process of its own."""

    key: str  #: Unique name of this try.
    asked: Asked  #: Settings of the run.
    #: Signatures of the bricks to time; ``None`` to cut the suite and to list its bricks.
    share: tuple[str, ...] | None
    budget_s: float | None  #: Seconds for measuring the share; ``None`` for the host's default.
    #: Seconds after which the process is ended. Waiting for other measurements on the host does not
    #: count.
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
    """The result of an order."""

    records: bytes  #: Measurements of the order in the host's store, as an exported file.
    bricks: tuple[Priced, ...] = ()  #: Bricks of the suite, for an order to cut it.
    #: Seconds for measuring all bricks, for an order to cut the suite where a precision decides the
    #: number of runs.
    budget_s: float | None = None
    #: Reason for each network without a figure, by signature.
    failures: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[Failure, ...] = ()  #: Models of the suite that the host could not read.
    #: Number of networks that were timed; the store held the figures of the others.
    measured: int = 0
    seconds: float = 0.0  #: Duration in seconds without waiting.
    warnings: tuple[Note, ...] = ()  #: Disturbances of the host.

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
    """The contribution of a host to a run."""

    host: Host  #: The host.
    jobs: int  #: Number of shares that the host finished.
    bricks: int  #: Number of bricks in these shares.
    seconds: float  #: Seconds of measuring.
    gone: str = ""  #: Why the host left; empty if it is still connected.
    joined: int = 1  #: Number of times that the host joined.


@dataclass(frozen=True)
class JobResult:
    """A share of the suite and its outcome."""

    kind: str  #: Fingerprint of the kind of host.
    host: str  #: Name and address of the last host that tried.
    bricks: int  #: Number of bricks in the share.
    measured: int  #: Number of these bricks that were timed in this run.
    tries: int  #: Number of tries, on whichever hosts.
    seconds: float  #: Seconds of the last try.
    reason: str = ""  #: Why there is no result; empty if there is one.


@dataclass(frozen=True)
class KindResult:
    """The results of a suite on one kind of host."""

    system: System  #: System of one host of the kind.
    #: Number of hosts of the kind that took part. A host that left and joined again counts once.
    hosts: int
    bricks: int  #: Number of bricks of the suite on this kind of host.
    known: int  #: Number of bricks that have a figure.
    measured: int  #: Number of bricks that were timed in this run.
    seconds: float  #: Total seconds of measuring on all hosts of the kind.
    warnings: tuple[Note, ...] = ()  #: Disturbances of the hosts.


@dataclass(frozen=True)
class FleetResult:
    """The result of a run."""

    suite: str  #: Folder of the suite.
    backend: str  #: Name of the backend.
    scheduler: str  #: Address of the scheduler.
    kinds: Sequence[KindResult]  #: Kinds of host.
    hosts: Sequence[HostResult]  #: Hosts.
    jobs: Sequence[JobResult]  #: Shares in the order in which they ended.
    failures: Sequence[Failure]  #: Networks without a figure, with the reason.
    seconds: float  #: Duration of the run in seconds.
