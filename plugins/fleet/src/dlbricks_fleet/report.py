"""A fleet and its runs, as tables and as plain data."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypedDict, cast

from dlbricks_core.report.data import (
    SCHEMA_VERSION,
    ListedFailuresData,
    NoteData,
    SystemData,
    failures_data,
)
from dlbricks_core.report.notes import notes_data, text
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import Console, lines, styled, table
from dlbricks_core.wording import count
from dlbricks_fleet.records import Fleet, FleetResult, Host, RunState

if TYPE_CHECKING:
    from dlbricks_core.report.data import SystemData


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


_GONE_SHOWN = 5
"""Maximum number of lost hosts that are listed."""

_MINUTE_S, _HOUR_S = 60, 3600
"""Seconds of a minute and of an hour."""

_BETWEEN = re.compile(r"; (?![^(]*\))")
"""Separator of the parts of a reason. Hints in parentheses are no parts."""

_HINT = re.compile(r" \([^()]*\)$")


def duration(seconds: float) -> str:
    """Duration in a readable unit: ``45 s``, ``3 min``, ``2.5 h``."""
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def print_fleet(console: Console, fleet: Fleet) -> None:
    """Prints the hosts of a fleet, their activities, and the progress of runs."""
    kinds = {host.kind for host in fleet.hosts}
    console.print(
        f"{count(len(fleet.hosts), 'host')} of {count(len(kinds), 'kind')} at {fleet.scheduler}"
    )
    if fleet.hosts:
        shown = table("Host", "Processor", "Backends", "Does", "Since", left=4)
        for host in fleet.hosts:
            shown.add_row(
                lines(host.name, host.address.rpartition("/")[2]),
                lines(host.system.cpu or "unknown", host.kind),
                lines(*(f"{name} {version}" for name, version in host.backends.items())),
                host.doing or "nothing",
                duration(host.since_s) if host.doing else "-",
            )
        console.print(shown)
    for run in fleet.runs:
        console.print(_progress(run))
    if not fleet.runs:
        console.print("No run is in progress.")
    for gone in fleet.absent[-_GONE_SHOWN:]:
        console.print(styled(("Gone:", "yellow"), f" {gone.name} ({gone.address}): {gone.reason}"))


def _progress(run: RunState) -> str:
    left = "" if run.left_s is None else f", about {duration(run.left_s)} left"
    done = f"{run.done:,} of {count(run.bricks, 'brick')}" if run.bricks else "not cut yet"
    return f"Run of {run.suite} on {run.backend}: {done}, for {duration(run.seconds)}{left}."


def print_fleet_run(console: Console, result: FleetResult) -> None:
    """Prints the results of each kind of host, the hosts' contributions, and failures."""
    measured = sum(kind.measured for kind in result.kinds)
    console.print(
        styled(
            (
                f"{result.suite} on {result.backend}: {count(len(result.kinds), 'kind')} of host, "
                f"{count(measured, 'brick')} timed now, in {duration(result.seconds)}",
                "bold",
            )
        )
    )
    kinds = table("Kind of host", "Hosts", "Bricks", "Known", "Timed now", "Measuring")
    for kind in result.kinds:
        kinds.add_row(
            lines(kind.system.cpu or "unknown", kind.system.fingerprint),
            str(kind.hosts),
            f"{kind.bricks:,}",
            f"{kind.known:,}",
            f"{kind.measured:,}",
            duration(kind.seconds),
        )
    console.print(kinds)
    hosts = table("Host", "Shares", "Bricks", "Measuring")
    for each in result.hosts:
        again = [f"joined {each.joined} times"] if each.joined > 1 else []
        name = lines(each.host.name, each.host.address, *again)
        hosts.add_row(name, str(each.jobs), str(each.bricks), duration(each.seconds))
    console.print(hosts)
    for each in result.hosts:
        if each.gone:
            console.print(styled(("Gone:", "yellow"), f" {each.host}: {each.gone}"))
    for kind in result.kinds:
        for warning in kind.warnings:
            console.print(styled(("Warning:", "yellow"), f" {text(warning)}"))
    print_failures(console, [replace(each, reason=_short(each.reason)) for each in result.failures])


def _short(reason: str) -> str:
    """The first part of a reason, and the number of the others: each layer may have one."""
    first, *others = _BETWEEN.split(reason)
    if not others:
        return reason
    hint = _HINT.search(others[-1])
    return f"{first} and {len(others)} more{hint[0] if hint else ''}"


def run_data(result: FleetResult) -> FleetRunData:
    """A run of a fleet as the JSON object that scripts read."""
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": result.suite,
        "backend": result.backend,
        "scheduler": result.scheduler,
        "seconds": result.seconds,
        "kinds": [
            {
                "system": cast("SystemData", kind.system.to_dict()),
                "hosts": kind.hosts,
                "bricks": kind.bricks,
                "known": kind.known,
                "measured": kind.measured,
                "seconds": kind.seconds,
                "warnings": notes_data(kind.warnings),
            }
            for kind in result.kinds
        ],
        "hosts": [
            {
                **_host_data(each.host),
                "jobs": each.jobs,
                "bricks": each.bricks,
                "seconds": each.seconds,
                "gone": each.gone or None,
                "joined": each.joined,
            }
            for each in result.hosts
        ],
        "jobs": [
            cast("FleetJobData", {**asdict(each), "reason": each.reason or None})
            for each in result.jobs
        ],
        "failures": failures_data(result.failures),
    }


def _host_data(host: Host) -> HostHeadData:
    return {
        "address": host.address,
        "identity": host.identity or None,
        "name": host.name,
        "system": host.kind,
        "processor": host.system.cpu,
        "version": host.version,
        "backends": dict(host.backends),
    }


def fleet_data(fleet: Fleet) -> FleetStatusData:
    """State of a fleet as the JSON object that scripts read."""
    return {
        "schema_version": SCHEMA_VERSION,
        "scheduler": fleet.scheduler,
        "hosts": [
            {
                **_host_data(each),
                "doing": each.doing or None,
                "since_s": each.since_s if each.doing else None,
            }
            for each in fleet.hosts
        ],
        "gone": [
            cast("FleetGoneData", {**asdict(each), "identity": each.identity or None})
            for each in fleet.absent
        ],
        "runs": [cast("FleetProgressData", asdict(each)) for each in fleet.runs],
        "failures": failures_data([]),
    }
