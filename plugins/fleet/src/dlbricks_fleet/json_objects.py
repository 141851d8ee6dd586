"""Fleets and their runs in JSON."""

from __future__ import annotations

from typing import TypedDict

from dlbricks_core.report.data import ListedFailuresData, NoteData, SystemData


class FleetRunData(ListedFailuresData):
    """A suite that hosts of a fleet measured."""

    suite: str  #: Folder of the suite.
    backend: str  #: Name of the backend.
    scheduler: str  #: Address of the scheduler.
    seconds: float  #: Seconds of the run.
    kinds: list[FleetKindData]  #: Kinds of host.
    hosts: list[FleetHostData]  #: Hosts that took part.
    jobs: list[FleetJobData]  #: Shares of the suite, in the order in which they ended.


class FleetKindData(TypedDict):
    """Figures of the suite on a kind of host."""

    system: SystemData  #: A host of the kind.
    #: Number of hosts of the kind that took part. A host that left and joined again counts once.
    hosts: int
    bricks: int  #: Bricks of the suite there.
    known: int  #: Bricks that have a figure.
    measured: int  #: Bricks that were timed in this run; the others were known.
    seconds: float  #: Seconds of measuring, of all its hosts together.
    warnings: list[NoteData]  #: Disturbances of the hosts.


class HostHeadData(TypedDict):
    """A host of a fleet."""

    address: str  #: Address of the host's worker.
    name: str  #: Name of the machine.
    system: str  #: Fingerprint of its kind: hosts of one kind measure alike.
    processor: str  #: Its processor.
    version: str  #: Version of DLBricks there.
    backends: dict[str, str]  #: Version of each backend's framework there, by the backend's name.
    #: Identity of the host, which stays the same when it leaves and joins again; null if unknown.
    identity: str | None


class FleetHostData(HostHeadData):
    """Work of a host."""

    jobs: int  #: Shares that it finished.
    bricks: int  #: Bricks in them.
    seconds: float  #: Seconds that it measured.
    gone: str | None  #: Why the host left; null if it is still connected.
    joined: int  #: Number of times that the host joined; more than 1 if it left and joined again.


class FleetJobData(TypedDict):
    """A share of the suite, and how it ended."""

    kind: str  #: Fingerprint of the kind of host.
    host: str  #: The last host that tried.
    bricks: int  #: Its bricks.
    measured: int  #: Bricks of it that were timed in this run.
    tries: int  #: Number of tries.
    seconds: float  #: Seconds of the last try.
    reason: str | None  #: Why there is no result; null if there is.


class FleetStatusData(ListedFailuresData):
    """A fleet at a moment."""

    scheduler: str  #: Address of the scheduler.
    hosts: list[FleetStateData]  #: Hosts that are there.
    gone: list[FleetGoneData]  #: Hosts that left and have not joined again. Each occurs once.
    runs: list[FleetProgressData]  #: Runs in progress.


class FleetStateData(HostHeadData):
    """A host, and its activity."""

    doing: str | None  #: Its activity; null for none.
    since_s: float | None  #: Seconds since it began to do that.


class FleetGoneData(TypedDict):
    """A host that left."""

    address: str  #: Address of its worker.
    name: str  #: Name of the machine.
    reason: str  #: Why the host left.
    #: Identity of the host, which stays the same when it leaves and joins again; null if unknown.
    identity: str | None


class FleetProgressData(TypedDict):
    """Progress of a run."""

    suite: str  #: Name of the suite.
    backend: str  #: Name of the backend.
    bricks: int  #: Bricks on all kinds of host that have cut the suite.
    done: int  #: Bricks that are done, failed ones included.
    left_s: float | None  #: Seconds until the end; null if that is not known.
    seconds: float  #: Seconds since it began.
