"""Extracts the essential part of ONNX Runtime's messages, without details for its developers."""

from __future__ import annotations

import re

_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_PLACE = r"(?:/\S+:\d+ .*?\)(?: const)? )?"
"""Pattern of a line in ONNX Runtime's sources and the signature of a function."""

_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(\d+\) node with name '.*'")

_RUNNING = re.compile(rf"while running (\w+) node\. Name:'(.*?)' Status Message: {_PLACE}(.*)")


def one_line(error: Exception) -> str:
    """Reason in a message, in one line: the layer, and the problem with it."""
    text = _CODE.sub("", " ".join(str(error).split()))
    found = _RUNNING.search(text)
    if found:
        return f"{found[1]} {found[2]!r}: {found[3]}"
    return _NO_KERNEL.sub(r"no CPU kernel for \1", re.sub(f"^{_PLACE}", "", text))
