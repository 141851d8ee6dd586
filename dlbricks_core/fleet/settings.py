"""Settings of Dask that a fleet overrides, each with the reason.

They hold whatever a user's own configuration of Dask says: a setting that suits a cluster which
moves data may disturb hosts that measure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

HEARTBEAT_S = 5.0
"""Seconds between two signs of life of a worker. Dask's own is half a second in a small fleet."""

SILENCE_S = 60.0
"""Seconds of silence after which a host counts as gone."""


_LEAST_TCP_S = 11.0
"""Least seconds that Dask takes for a connection without answer."""


@dataclass(frozen=True)
class Override:
    """A setting that is not Dask's own.

    Attributes:
        value: Value in a fleet.
        reason: Reason for it.
    """

    value: Any
    reason: str


OVERRIDES: Mapping[str, Override] = {
    # Of workers: what would disturb what is timed beside them.
    "distributed.nanny.pre-spawn-environ": Override(
        {},
        "It sets OMP_NUM_THREADS, MKL_NUM_THREADS and OPENBLAS_NUM_THREADS to 1, and "
        "MALLOC_TRIM_THRESHOLD_, for all that a worker starts: frameworks would run on one "
        "thread and give memory back between runs.",
    ),
    "distributed.nanny.environ": Override({}, "The environment of measurements is the user's."),
    "distributed.worker.profile.enabled": Override(
        False, "A thread looks at all stacks every 10 ms."
    ),
    "distributed.admin.tick.interval": Override(
        "10s", "The event loop wakes every 20 ms to see whether it is late."
    ),
    "distributed.admin.tick.cycle": Override("60s", "The same, every second."),
    "distributed.admin.tick.limit": Override(
        "1h", "A late event loop is no failure where cores are busy measuring."
    ),
    "distributed.admin.system-monitor.interval": Override(
        "60s", "It reads the load of processor, memory, disks and network every 500 ms."
    ),
    "distributed.admin.system-monitor.disk": Override(False, "The same, of the disks."),
    "distributed.admin.system-monitor.gil.enabled": Override(
        False, "It asks for the interpreter's lock every millisecond, where gilknocker is there."
    ),
    "distributed.diagnostics.nvml": Override(False, "It asks graphics cards for their load."),
    "distributed.worker.http.routes": Override([], "Nobody is to ask a worker that measures."),
    "distributed.worker.memory.target": Override(
        False, "Results would go to disk when memory is short."
    ),
    "distributed.worker.memory.spill": Override(False, "The same, by the memory of the process."),
    "distributed.worker.memory.pause": Override(
        False, "A worker would stop when memory is short: a large model needs most of it."
    ),
    "distributed.worker.memory.terminate": Override(
        False, "A worker would be ended when memory is short. DLBricks limits its own processes."
    ),
    "distributed.worker.lifetime.duration": Override(None, "A worker would end by the clock."),
    "distributed.worker.lifetime.restart": Override(False, "The same."),
    "distributed.worker.resources": Override(
        {}, "Work that asks for a resource which no worker offers waits for ever."
    ),
    "distributed.worker.preload": Override([], "Other programs' code beside measurements."),
    # Of the scheduler: what would decide where a share goes, or that it failed.
    "distributed.scheduler.work-stealing": Override(
        False, "A share belongs to a kind of host; its commander alone moves it."
    ),
    "distributed.scheduler.active-memory-manager.start": Override(
        False, "It looks for copies of data every 2 s. There are none."
    ),
    "distributed.scheduler.allowed-failures": Override(
        0,
        "A share would be started anew on the same host, up to three times, and the reason be "
        "hidden in KilledWorker.",
    ),
    "distributed.scheduler.worker-ttl": Override(
        f"{SILENCE_S:g}s", "A host is gone after a minute of silence, not after five."
    ),
    "distributed.comm.timeouts.tcp": Override(
        f"{SILENCE_S:g}s", "A connection without answer is as silent as its host."
    ),
    "distributed.scheduler.idle-timeout": Override(None, "A scheduler would end between two runs."),
    "distributed.scheduler.no-workers-timeout": Override(
        None, "Work would fail by a clock that is not the run's."
    ),
    "distributed.scheduler.preload": Override([], "Other programs' code."),
    "distributed.scheduler.http.routes": Override([], "Nothing to see there: see fleet status."),
    # Of clients.
    "distributed.admin.large-graph-warning-threshold": Override(
        "1 GiB", "A suite is sent as it is, once to each host."
    ),
}
"""What is overridden, by the name that Dask's configuration has for it."""


def override(silence_s: float = SILENCE_S) -> None:
    """Sets all that is overridden, for this process.

    Args:
        silence_s: Seconds of silence after which a host counts as gone.
    """
    import dask  # not before: the table is there without the extra, for people to read

    later = {
        "distributed.scheduler.worker-ttl": f"{silence_s:g}s",
        "distributed.comm.timeouts.tcp": f"{max(silence_s, _LEAST_TCP_S):g}s",
    }
    # Copies: Dask adds its own values to mappings that it was given.
    values = {name: deepcopy(each.value) for name, each in OVERRIDES.items()}
    dask.config.set({**values, **later})


def hush() -> None:
    """Keeps Dask from logging: what users must know of a fleet, this room tells in its own words.

    Dask gives its loggers levels of their own when it is imported.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
