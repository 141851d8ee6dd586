"""Extracts the essential part of OpenVINO's messages, without places in its sources."""

from __future__ import annotations

_REFUSES = ("OpConversionFailure", "NotImplementedFailure", "Unsupported operation")
"""Words in errors of the ONNX reader and of the CPU plugin about unsupported features."""


def is_refusal(error: RuntimeError) -> bool:
    """Whether an error is about an unsupported feature; all errors of OpenVINO have one type."""
    return any(words in str(error) for words in _REFUSES)


def one_line(error: Exception) -> str:
    """The problem in a message, whose leading lines end in colons."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line and not line.endswith(":")), str(error).strip())
