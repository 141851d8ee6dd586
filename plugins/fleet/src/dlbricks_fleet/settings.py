"""Settings of Dask that a fleet overrides, each with the reason.

They take precedence over a user's own configuration of Dask: a setting that suits a cluster which
moves data may disturb hosts that measure.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

HEARTBEAT_S = 5.0
"""Seconds between two heartbeats of a worker. Dask's default is half a second in a small fleet."""

SILENCE_S = 60.0
"""Seconds of silence after which a host counts as gone."""


_LEAST_TCP_S = 11.0
"""Minimum seconds that Dask accepts as the limit of a connection without answer."""


@dataclass(frozen=True)
class Override:
    """A setting that differs from Dask's default."""

    value: Any
    reason: str


OVERRIDES: Mapping[str, Override] = {
    # Settings of workers that would otherwise disturb measurements.
    "distributed.nanny.pre-spawn-environ": Override(
        {},
        "Dask sets OMP_NUM_THREADS, MKL_NUM_THREADS and OPENBLAS_NUM_THREADS to 1, and "
        "MALLOC_TRIM_THRESHOLD_, for all processes of a worker. Frameworks would run on one "
        "thread and return memory between runs.",
    ),
    "distributed.nanny.environ": Override({}, "Measurements run in the user's environment."),
    "distributed.worker.profile.enabled": Override(
        False, "A thread would sample all stacks every 10 ms."
    ),
    "distributed.admin.tick.interval": Override(
        "10s", "The event loop would wake every 20 ms to measure its delay."
    ),
    "distributed.admin.tick.cycle": Override(
        "60s", "The event loop would wake every second to check its delay."
    ),
    "distributed.admin.tick.limit": Override(
        "1h", "A delayed event loop is harmless while measurements keep the cores busy."
    ),
    "distributed.admin.system-monitor.interval": Override(
        "60s", "Dask would read the load of processor, memory and network every 500 ms."
    ),
    "distributed.admin.system-monitor.disk": Override(
        False, "Dask would read the load of the disks every 500 ms."
    ),
    "distributed.admin.system-monitor.gil.enabled": Override(
        False,
        "Where gilknocker is installed, it would take the interpreter's lock every millisecond.",
    ),
    "distributed.diagnostics.nvml": Override(False, "Dask would query the load of graphics cards."),
    "distributed.worker.http.routes": Override(
        [], "HTTP requests would disturb a worker that measures."
    ),
    "distributed.worker.memory.target": Override(
        False, "Results would be written to disk when memory is short."
    ),
    "distributed.worker.memory.spill": Override(
        False, "Results would be written to disk when the process is large."
    ),
    "distributed.worker.memory.pause": Override(
        False, "A worker would pause when memory is short, but a large model needs most of it."
    ),
    "distributed.worker.memory.terminate": Override(
        False, "A worker would be killed when memory is short. DLBricks limits its own processes."
    ),
    "distributed.worker.lifetime.duration": Override(
        None, "A worker would end after a fixed time."
    ),
    "distributed.worker.lifetime.restart": Override(
        False, "A worker would restart after a fixed time."
    ),
    "distributed.worker.resources": Override(
        {}, "A task that requires a resource which no worker offers would wait for ever."
    ),
    "distributed.worker.preload": Override(
        [], "Code of other programs would run beside measurements."
    ),
    # Settings of the scheduler: whatever would move a share or declare it failed.
    "distributed.scheduler.work-stealing": Override(
        False, "A share belongs to one kind of host. Only the run's client may move it."
    ),
    "distributed.scheduler.active-memory-manager.start": Override(
        False, "Dask would search for copies of data every 2 s, and there are none."
    ),
    "distributed.scheduler.allowed-failures": Override(
        0,
        "A share would be restarted on the same host up to three times, and KilledWorker would "
        "hide the reason.",
    ),
    "distributed.scheduler.worker-ttl": Override(
        f"{SILENCE_S:g}s", "A host counts as gone after one minute of silence, not after five."
    ),
    "distributed.comm.timeouts.tcp": Override(
        f"{SILENCE_S:g}s", "A connection may be as silent as its host."
    ),
    "distributed.scheduler.idle-timeout": Override(
        None, "A scheduler would exit between two runs."
    ),
    "distributed.scheduler.no-workers-timeout": Override(
        None, "Work would fail without workers, but the run has a limit of its own."
    ),
    "distributed.scheduler.preload": Override([], "Code of other programs would run."),
    "distributed.scheduler.http.routes": Override([], "Use `dlbricks fleet status` instead."),
    # Settings of clients.
    "distributed.admin.large-graph-warning-threshold": Override(
        "1 GiB", "Dask would warn of a large suite, which each host receives once."
    ),
}
"""Overridden settings, by their name in Dask's configuration."""


def override(silence_s: float = SILENCE_S) -> None:
    """Sets all overridden settings for this process."""
    import dask  # imported here: people read the table without the extra, too

    later = {
        "distributed.scheduler.worker-ttl": f"{silence_s:g}s",
        "distributed.comm.timeouts.tcp": f"{max(silence_s, _LEAST_TCP_S):g}s",
    }
    # Copies: Dask adds its own values to mappings that it was given.
    values = {name: deepcopy(each.value) for name, each in OVERRIDES.items()}
    dask.config.set({**values, **later})


@contextmanager
def scratch() -> Iterator[None]:
    """Temporary folder for files of Dask, which would leave a folder behind."""
    import dask

    with (
        tempfile.TemporaryDirectory(prefix="dlbricks-fleet-") as folder,
        dask.config.set({"temporary-directory": folder}),
    ):
        yield


def hush() -> None:
    """Silences Dask's logs, because this package reports to users itself.

    Dask sets the levels of its loggers when it is imported.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
