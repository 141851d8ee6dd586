"""Extracts the essential part of ONNX Runtime's messages, without details for its developers."""

from __future__ import annotations

import re

_RUNNING = re.compile(r"while running (\w+) node\. Name:'(.*?)' Status Message: (.*)")

_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(\d+\) node with name '.*'")

_SOURCES = (
    re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : "),
    re.compile(r"/\S+:\d+ .*?\)(?: const)? (?=\S)"),  # a line, and the signature of a function
    re.compile(r"\b\w+\.(?:h|cc):\d+ \w+ (?=\S)"),  # a line, and the name of a function
    re.compile(r"\[with [^\]]*\] "),  # parameters of a template
    re.compile(r"^.*? was false\. (?=\S)"),  # a condition, where words follow
    re.compile(r" \w+ ?[!=]= ?N\d+\w+E\b"),  # the name of a type, as a linker reads it
)
"""Parts of messages that speak of ONNX Runtime's sources, in the order in which they stand."""


def one_line(error: Exception) -> str:
    """Reason in a message, in one line: the layer, and the problem with it."""
    text = " ".join(str(error).split())
    found = _RUNNING.search(text)
    reason = found[3] if found else text
    for part in _SOURCES:
        reason = part.sub("", reason)
    return (
        f"{found[1]} {found[2]!r}: {reason}"
        if found
        else _NO_KERNEL.sub(r"no CPU kernel for \1", reason)
    )
