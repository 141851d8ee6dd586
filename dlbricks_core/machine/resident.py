"""Resident memory of this process, now and at its peak."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

MIB = 2**20
"""Bytes of a mebibyte."""


def resident_mib() -> float:
    """Resident memory of this process in MiB, with the pages of files that it has mapped."""
    return _status("VmRSS")


def peak_mib() -> float:
    """The most resident memory in MiB since the process began, or since :func:`forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Lets the peak begin anew, from the resident memory of now; see proc_pid_clear_refs(5)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def give_back() -> None:
    """Gives memory that was freed back to the system, as far as the allocator can (glibc's)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text(errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / MIB
