"""Resident memory of this process, by its parts and at its peak."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

from dlbricks_core.worker.memory import M_TRIM_THRESHOLD, status_mib


def mapped_mib() -> float:
    """Resident pages of mapped files, such as the code of libraries, in MiB."""
    return status_mib("RssFile")


def own_mib() -> float:
    """Resident memory of this process without pages of files, in MiB."""
    return status_mib("RssAnon")


def peak_mib() -> float:
    """Peak resident memory in MiB since the process began, or since :func:`forget_peak`."""
    return status_mib("VmHWM")


def forget_peak() -> None:
    """Resets the peak to the present resident memory; see proc_pid_clear_refs(5)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def return_ends() -> None:
    """Lets every later free return the end of its heap to the system, from 128 KiB on.

    :func:`~dlbricks_core.worker.memory.give_back` alone does so for the first heap only:
    ``malloc_trim`` returns all free pages, but leaves the end of the heaps that glibc gives further
    threads. The threshold for blocks of their own no longer grows after this.
    """
    with suppress(AttributeError):  # without glibc
        ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 2**17)
