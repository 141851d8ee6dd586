"""Memory for workers: its free amount, and a limit, so that a lack of memory ends only the worker.

The limit is on data (``RLIMIT_DATA``): private memory that can be written. Frameworks reserve many
times as much and map large files, but that takes no memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from dlbricks_core.errors import DLBricksError
from dlbricks_core.limits import OWN_MEMORY, OWN_TIME

_SHARE = 0.9
_ROOT = Path("/")

_ULIMITS = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}

_WORDS = ("bad_alloc", "out of memory", "cannot allocate memory", "memoryerror",
          "failed to allocate", "can't allocate memory", "failed to map segment",
          "can't start new thread", "pthread_create failed")  # fmt: skip


def tells_of_memory(text: str) -> bool:
    """Whether a message reports a lack of memory."""
    return any(word in text.lower() for word in _WORDS)


def lacks_memory(error: Exception) -> bool:
    """Whether an error is due to a lack of memory, also while a library was loaded."""
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
    """Bytes that could be used now without swapping, by the counters of machine and container.

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
    """Restores the limits that this process was started with, for a new process to inherit."""
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


# Limits on a command's own memory and time, until it begins to measure.
#
# Untrusted input may lead to more work than any machine can do. Workers have separate limits;
# these limits are for the command's own work on answers of workers, stores and suites.

_MIB = 2**20

_MOST_TIMED_S = 2**31
"""Seconds that a timer of the system counts."""

_limits: list[ExitStack] = []


class OwnTimeError(BaseException):
    """A command has computed for longer than :data:`OWN_TIME`.

    Nothing that continues after errors of single models catches it.
    """

    def __init__(self) -> None:
        super().__init__(f"the command computed for {OWN_TIME.words}")


@contextmanager
def limited() -> Iterator[None]:
    """Limits this process while the context lasts, or until :func:`release`.

    Only computing counts, not waiting. In a thread other than the main one there are no limits.

    Raises:
        OwnTimeError: If the time is spent.
        DLBricksError: If a variable that raises a limit is not a number.
    """
    from threading import current_thread, main_thread  # after what catches signals meanwhile

    if current_thread() is not main_thread():  # only the main thread may handle signals
        yield
        return
    seconds, nbytes = OWN_TIME.most, min(OWN_MEMORY.most * _MIB, memory_to_use())
    handler = signal.signal(signal.SIGPROF, _end)
    try:
        limits = ExitStack()
        _limits.append(limits)
        limits.enter_context(itself_limited(nbytes))
        limits.callback(signal.setitimer, signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_PROF, min(seconds, _MOST_TIMED_S))
        yield
    finally:
        release()
        signal.signal(signal.SIGPROF, handler)


def release() -> None:
    """Ends the limits, because measuring has no time limit. Any thread may call it."""
    while _limits:
        _limits.pop().close()


def own_memory_hint() -> str:
    """Advice for the user after the command itself lacked memory."""
    if memory_to_use() > OWN_MEMORY.most * _MIB:
        return OWN_MEMORY.hint
    return memory_hint()


def _end(number: int, frame: FrameType | None) -> None:
    raise OwnTimeError


# Resident memory of this process.

MIB = 2**20
"""Bytes of a mebibyte."""


MOST_KEPT_MIB = 32.0
"""Size of a block in MiB above which freed memory never serves for it, and is given back as soon as
it is free: glibc's ``M_MMAP_THRESHOLD`` grows with the blocks that are freed, up to this."""


M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""


def resident_mib() -> float:
    """Resident memory of this process in MiB, including pages of files that it has mapped."""
    return status_mib("VmRSS")


def keep_freed() -> None:
    """Keeps freed memory in this process for later use, except for the largest blocks.

    By default, glibc returns freed memory at the end of its heap to the system, from a size that
    depends on what the process has freed before. Then every inference may begin with thousands of
    page faults, or with none: SqueezeNet takes 7.3 or 4.7 ms on MXNet
    (benchmarks/equal_processes.py, AMD EPYC, Zen 5). Without glibc, nothing changes.
    """
    with suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, int(MOST_KEPT_MIB) * MIB)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def give_back() -> None:
    """Returns freed memory to the system, as far as glibc's allocator can."""
    gc.collect()
    with suppress(AttributeError):  # without glibc
        ctypes.CDLL(None).malloc_trim(0)


def status_mib(field: str) -> float:
    """A field of /proc/self/status in MiB; see proc_pid_status(5)."""
    lines = Path("/proc/self/status").read_text(errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / MIB
