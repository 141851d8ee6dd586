"""Resident memory of this process, now and at its peak."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

MIB = 2**20
"""Bytes of a mebibyte."""


MOST_KEPT_MIB = 32.0
"""Size of a block in MiB above which freed memory never serves for it, and is given back as soon as
it is free: glibc's ``M_MMAP_THRESHOLD`` grows with the blocks that are freed, up to this."""


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""


def resident_mib() -> float:
    """Resident memory of this process in MiB, including pages of files that it has mapped."""
    return _status("VmRSS")


def mapped_mib() -> float:
    """The part of it that are pages of mapped files, such as the code of libraries, in MiB."""
    return _status("RssFile")


def own_mib() -> float:
    """The part of it that belongs to no file, in MiB."""
    return _status("RssAnon")


def peak_mib() -> float:
    """Peak resident memory in MiB since the process began, or since :func:`forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Resets the peak to the present resident memory; see proc_pid_clear_refs(5)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


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
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def return_ends() -> None:
    """Lets every later free return the end of its heap to the system, from 128 KiB on.

    :func:`give_back` alone does so for the first heap only: ``malloc_trim`` returns all free pages,
    but leaves the end of the heaps that glibc gives further threads. The threshold for blocks of
    their own no longer grows after this.
    """
    with suppress(AttributeError):  # without glibc
        ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, 2**17)


def give_back() -> None:
    """Returns freed memory to the system, as far as glibc's allocator can."""
    gc.collect()
    with suppress(AttributeError):  # without glibc
        ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text(errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / MIB
