"""Resident memory of this process, now and at its peak."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

MIB = 2**20
"""Bytes of a mebibyte."""


def resident_mib() -> float:
    """Resident memory of this process in MiB, including pages of files that it has mapped."""
    return _status("VmRSS")


def peak_mib() -> float:
    """Peak resident memory in MiB since the process began, or since :func:`forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Resets the peak to the present resident memory; see proc_pid_clear_refs(5)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def give_back() -> None:
    """Returns freed memory to the system, as far as glibc's allocator can."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text(errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / MIB
