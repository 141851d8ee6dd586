"""Extracts the essential part of OpenVINO's messages, without places in its sources."""

from __future__ import annotations

_REFUSES = ("OpConversionFailure", "NotImplementedFailure", "Unsupported operation")
"""Words of errors of what reads ONNX, and of the CPU plugin, where they lack something."""


def is_refusal(error: RuntimeError) -> bool:
    """Whether OpenVINO says that it lacks something; it has one type of error for all reasons."""
    return any(words in str(error) for words in _REFUSES)


def one_line(error: Exception) -> str:
    """The problem in a message, whose leading lines end in colons."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line and not line.endswith(":")), str(error).strip())
