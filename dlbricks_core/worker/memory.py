"""Memory for workers: how much is free, and a limit, so that only the worker fails without it.

The limit is on data (``RLIMIT_DATA``): private memory that can be written. Frameworks reserve many
times as much and map large files, but that takes no memory.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dlbricks_core.errors import DLBricksError

_SHARE = 0.9
_ROOT = Path("/")

_ULIMITS = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}

_WORDS = ("bad_alloc", "out of memory", "cannot allocate memory", "memoryerror",
          "failed to allocate", "can't allocate memory", "failed to map segment",
          "can't start new thread", "pthread_create failed")  # fmt: skip


def tells_of_memory(text: str) -> bool:
    """Whether a message says that there was not enough memory."""
    return any(word in text.lower() for word in _WORDS)


def lacks_memory(error: Exception) -> bool:
    """Whether an error means that there was not enough memory, be it to load a library."""
    return isinstance(error, MemoryError) or tells_of_memory(str(error))


def memory_to_use(root: Path = _ROOT) -> int:
    """Bytes that all workers together may take now: 90% of the free memory.

    A limit that the user has set for each process also bounds them.

    Args:
        root: Folder that holds ``/proc`` and ``/sys``.
    """
    free = available(root)
    if free is None:  # without /proc, the kernel counts memory of caches as used
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [int(free * _SHARE), *_soft_limits().values()]
    return max(min(limits), 0)


def available(root: Path = _ROOT) -> int | None:
    """Bytes that could be used now without swapping, as the machine and the container count them.

    Args:
        root: Folder that holds ``/proc`` and ``/sys``.

    Returns:
        The number of bytes; ``None`` if it is unknown.
    """
    free = [_counters(root / "proc/meminfo").get("MemAvailable")]
    for limit, path in _container_limits(root):
        usage = _number(path.with_name(_USAGE[path.name]))
        if usage is not None:
            # Cached files count as used, but the kernel drops them when memory is short.
            counts = _counters(path.with_name("memory.stat"))
            cached = counts.get("total_inactive_file", counts.get("inactive_file", 0))
            free.append(limit - usage + cached)
    return min((max(nbytes, 0) for nbytes in free if nbytes is not None), default=None)


def container_limit(root: Path = _ROOT) -> int | None:
    """Maximum bytes that the container may use; ``None`` without a limit.

    Args:
        root: Folder that holds ``/proc`` and ``/sys``.
    """
    total = _counters(root / "proc/meminfo").get("MemTotal", 0)
    # Version 1 writes "no limit" as a number larger than any memory.
    limits = (limit for limit, _ in _container_limits(root))
    return min((limit for limit in limits if not total or limit < total), default=None)


_USAGE = {
    "memory.max": "memory.current",
    "memory.high": "memory.current",
    "memory.limit_in_bytes": "memory.usage_in_bytes",
}
"""File of each limit of a control group -> file of the use that counts against it. Beyond
``memory.high`` the kernel slows a group down until it stands still."""

_CONTROLLERS = {"memory.max": "", "memory.high": "", "memory.limit_in_bytes": "memory"}


def _container_limits(root: Path) -> Iterator[tuple[int, Path]]:
    for name, controller in _CONTROLLERS.items():
        for path in cgroup_files(controller, name, root):
            if (limit := _number(path)) is not None:
                yield limit, path


def cgroup_files(controller: str, name: str, root: Path = _ROOT) -> Iterator[Path]:
    """A control file of this process's group and of the groups that hold it.

    Args:
        controller: Name of the controller, such as ``cpu``; empty for version 2.
        name: Name of the file.
        root: Folder that holds ``/proc`` and ``/sys``.
    """
    base = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller not in controllers.split(","):
            continue
        mounts = (controllers, controller) if controller else ("", "unified")
        # Inside a container the path may be the host's, and only the mount is there.
        inside = Path(path.strip("/"))
        for mount in dict.fromkeys(mounts):
            for group in (inside, *inside.parents):
                if (base / mount / group / name).is_file():
                    yield base / mount / group / name


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _counters(path: Path) -> dict[str, int]:
    """Bytes by name, from lines ``name number`` or ``name: number kB``."""
    found = {}
    for line in _text(path).splitlines():
        name, number, *unit = [*line.split(), "", ""][:3]
        if number.isdecimal():
            found[name.rstrip(":")] = int(number) * (1024 if unit == ["kB"] else 1)
    return found


def limit_memory(nbytes: int) -> int:
    """Limits the memory of this process. Another call sets a new limit.

    Memory that is reserved and not used, such as stacks, does not count. Only the soft limit is
    set, and never above the limit that the process was started with.

    Args:
        nbytes: Maximum bytes, including those that the process uses already.

    Returns:
        Bytes that the process may still take. Other limits may leave less than this one.
    """
    held = _held()
    given = _soft_limits_at_start()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    more = max(nbytes - held.used, 0)
    most = _NO_LIMIT if hard == resource.RLIM_INFINITY else hard
    wanted = min(held.by_limit[resource.RLIMIT_DATA] + more, given.get("ulimit -d", most), most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    left = (soft - held.by_limit[_ULIMITS[name]] for name, soft in _soft_limits().items())
    return max(min(more, *left), 0)


_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class _Held:
    """Bytes that this process holds.

    Attributes:
        used: Resident bytes, without those of files.
        by_limit: Bytes that count against each limit, by its number.
    """

    used: int
    by_limit: dict[int, int]


def _held() -> _Held:
    try:
        text = (_ROOT / "proc/self/statm").read_text(encoding="ascii")
    except OSError:  # without /proc, the peak of resident memory is used for all memory
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return _Held(resident, dict.fromkeys(_ULIMITS.values(), resident))
    page = os.sysconf("SC_PAGE_SIZE")
    size, resident, shared, _, _, data, _ = (int(pages) * page for pages in text.split())
    return _Held(resident - shared, {resource.RLIMIT_AS: size, resource.RLIMIT_DATA: data})


def _soft_limits() -> dict[str, int]:
    limits = {
        name: _given.get(number, resource.getrlimit(number))[0] for name, number in _ULIMITS.items()
    }
    return {name: soft for name, soft in limits.items() if soft != resource.RLIM_INFINITY}


_soft_limits_at_start = cache(_soft_limits)


_given: dict[int, tuple[int, int]] = {}
"""Limits that this process was started with, by their number, where it has limited itself."""


@contextmanager
def itself_limited(nbytes: int) -> Iterator[None]:
    """Limits the memory of this process, but not of those that it starts, for a while.

    Args:
        nbytes: Maximum bytes, including those that the process uses already.
    """
    given = resource.getrlimit(resource.RLIMIT_DATA)
    limit_memory(nbytes)
    _given[resource.RLIMIT_DATA] = given
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, _given.pop(resource.RLIMIT_DATA))


@contextmanager
def as_given() -> Iterator[None]:
    """Has the limits that this process was started with: a new process inherits them."""
    own = {number: resource.getrlimit(number) for number in _given}
    for number, limits in _given.items():
        resource.setrlimit(number, limits)
    try:
        yield
    finally:
        for number, limits in own.items():
            resource.setrlimit(number, limits)


def ulimits() -> str:
    """Limits on memory that the user has set, as commands of the shell; empty if there are none.

    >>> ulimits()  # doctest: +SKIP
    'ulimit -v 8000000 (8.2 GB)'
    """
    return " and ".join(
        f"{name} {soft // 1024} ({soft / 1e9:.1f} GB)" for name, soft in _soft_limits().items()
    )


LEAST = {"ulimit -v": 512 << 20, "ulimit -d": 256 << 20}
"""Bytes under which a command may never end its start. A BLAS that lacks memory for its buffers
spins without end, and no signal but SIGKILL reaches it."""


def check_limits() -> None:
    """Refuses limits under which no command can do its work.

    Raises:
        DLBricksError: If a limit is lower than the least.
    """
    low = {name: soft for name, soft in _soft_limits().items() if soft < LEAST.get(name, 0)}
    if low:
        name = min(low)
        raise DLBricksError(
            f"{name} {low[name] // 1024} leaves {low[name] / 1e6:.0f} MB: a command needs "
            f"{LEAST[name] / 1e6:.0f} MB to start",
            hint=f"Raise or remove that limit, such as with {name} unlimited.",
        )


def memory_hint() -> str:
    """Advice for the user after memory was short."""
    if limits := ulimits():
        return f"Raise or remove the limit {limits}, or leave the model out."
    return "It needs more memory than is free; close other programs or leave the model out."
