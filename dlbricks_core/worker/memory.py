"""Memory: what is free for workers, and a limit that makes its lack theirs alone.

The limit is on data (``RLIMIT_DATA``): private memory that can be written. What frameworks only
reserve, and the files that they map, may be many times as much, and takes none.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SHARE = 0.9
_ROOT = Path("/")

_ULIMITS = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}

_WORDS = ("bad_alloc", "out of memory", "cannot allocate memory", "memoryerror",
          "failed to allocate", "can't allocate memory", "failed to map segment",
          "can't start new thread", "pthread_create failed")  # fmt: skip


def tells_of_memory(text: str) -> bool:
    """Whether a message says that memory was short."""
    return any(word in text.lower() for word in _WORDS)


def lacks_memory(error: Exception) -> bool:
    """Whether an error is one of memory that was short, also for loading a library."""
    return isinstance(error, MemoryError) or tells_of_memory(str(error))


def memory_to_use(root: Path = _ROOT) -> int:
    """Bytes that workers may take now, all together: 90% of what is free.

    A limit that the user has set for each process bounds it too.

    Args:
        root: Where /proc and /sys are.
    """
    free = available(root)
    if free is None:  # without /proc; the C library asks the kernel, who leaves out caches
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [int(free * _SHARE), *_soft_limits().values()]
    return max(min(limits), 0)


def available(root: Path = _ROOT) -> int | None:
    """Bytes that could be used now without swapping, by the machine's and the container's count.

    Args:
        root: Where /proc and /sys are.

    Returns:
        ``None`` where the system does not tell.
    """
    free = [_counters(root / "proc/meminfo").get("MemAvailable")]
    for limit, path in _container_limits(root):
        usage = _number(path.with_name(_USAGE[path.name]))
        if usage is not None:
            # Cached files count as used, but are given up when memory is short.
            counts = _counters(path.with_name("memory.stat"))
            cached = counts.get("total_inactive_file", counts.get("inactive_file", 0))
            free.append(limit - usage + cached)
    return min((max(nbytes, 0) for nbytes in free if nbytes is not None), default=None)


def container_limit(root: Path = _ROOT) -> int | None:
    """Bytes that the container may use, if limited.

    Args:
        root: Where /proc and /sys are.
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
"""Limits of control groups, and what counts against them. From ``memory.high`` on the kernel
slows a group down until it stands still."""

_CONTROLLERS = {"memory.max": "", "memory.high": "", "memory.limit_in_bytes": "memory"}


def _container_limits(root: Path) -> Iterator[tuple[int, Path]]:
    for name, controller in _CONTROLLERS.items():
        for path in cgroup_files(controller, name, root):
            if (limit := _number(path)) is not None:
                yield limit, path


def cgroup_files(controller: str, name: str, root: Path = _ROOT) -> Iterator[Path]:
    """A control file of this process's group and of the groups that hold it.

    Args:
        controller: Such as ``cpu``; empty for version 2.
        name: Of the file.
        root: Where /proc and /sys are.
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
    """Bytes by name, of lines ``name number`` or ``name: number kB``."""
    found = {}
    for line in _text(path).splitlines():
        name, number, *unit = [*line.split(), "", ""][:3]
        if number.isdecimal():
            found[name.rstrip(":")] = int(number) * (1024 if unit == ["kB"] else 1)
    return found


def limit_memory(nbytes: int) -> int:
    """Limits what this process may use; called again, it counts anew.

    What it holds and has not used, such as stacks, does not count. Only the soft limit is set,
    and never above that which the process was started with.

    Args:
        nbytes: All in all.

    Returns:
        Bytes that it may still take: other limits may leave less.
    """
    held = _held()
    given = _soft_limits_at_start()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    more = max(nbytes - held.used, 0)
    wanted = min(held.by_limit[resource.RLIMIT_DATA] + more, given.get("ulimit -d", _NO_LIMIT))
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    left = (soft - held.by_limit[_ULIMITS[name]] for name, soft in _soft_limits().items())
    return max(min(more, *left), 0)


_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class _Held:
    """Bytes that this process holds: that it uses and no file has, and that each limit counts."""

    used: int
    by_limit: dict[int, int]


def _held() -> _Held:
    try:
        text = (_ROOT / "proc/self/statm").read_text(encoding="ascii")
    except OSError:  # without /proc, what was resident at most stands for all of it
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return _Held(resident, dict.fromkeys(_ULIMITS.values(), resident))
    page = os.sysconf("SC_PAGE_SIZE")
    size, resident, shared, _, _, data, _ = (int(pages) * page for pages in text.split())
    return _Held(resident - shared, {resource.RLIMIT_AS: size, resource.RLIMIT_DATA: data})


def _soft_limits() -> dict[str, int]:
    limits = {name: resource.getrlimit(number)[0] for name, number in _ULIMITS.items()}
    return {name: soft for name, soft in limits.items() if soft != resource.RLIM_INFINITY}


_soft_limits_at_start = cache(_soft_limits)


def ulimits() -> str:
    """Limits on memory that the user has set, as the shell knows them; empty if none.

    >>> ulimits()  # doctest: +SKIP
    'ulimit -v 8000000 (8.2 GB)'
    """
    return " and ".join(
        f"{name} {soft // 1024} ({soft / 1e9:.1f} GB)" for name, soft in _soft_limits().items()
    )


def memory_hint() -> str:
    """What the user can do where memory was short."""
    if limits := ulimits():
        return f"Raise or remove the limit {limits}, or leave the model out."
    return "It needs more memory than is free; close other programs or leave the model out."
