"""Spelling of the library's arguments as command-line options."""

from __future__ import annotations

#: Options of all commands, which may also precede the command's name.
FLAGS = ("-v", "--verbose", "-q", "--quiet")

#: Options whose names do not follow from the argument that they set.
_SPELLINGS = {
    "backend_options": "--backend-option",
    "budget_s": "--budget",
    "deadline_s": "--deadline",
    "dims": "--dim",
    "duration_s": "--duration",
    "granularity": "-G",
    "latency_bound_ms": "--latency-bound",
    "max_latency_ms": "--max-latency",
    "shapes": "--dim",
    "silence_s": "--silence",
    "sources": "--source",
    "sweeps": "--sweep",
    "timeout_s": "--timeout",
    "values": "--value",
}


def option_of(argument: str) -> str:
    """The option that sets an argument of the library, as the user types it."""
    return _SPELLINGS.get(argument, f"--{argument.replace('_', '-')}")
