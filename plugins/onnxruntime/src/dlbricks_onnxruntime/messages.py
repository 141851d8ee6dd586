"""What ONNX Runtime's messages say, without what is for its developers."""

from __future__ import annotations

import re

_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_PLACE = r"(?:/\S+:\d+ .*?\)(?: const)? )?"
"""A line of ONNX Runtime's sources, and the signature of the function there."""

_RUNNING = re.compile(rf"while running (\w+) node\. Name:'(.*?)' Status Message: {_PLACE}(.*)")


def one_line(error: Exception) -> str:
    """Reason that a message gives, in one line: the layer, and what is wrong with it."""
    text = _CODE.sub("", " ".join(str(error).split()))
    found = _RUNNING.search(text)
    return f"{found[1]} {found[2]!r}: {found[3]}" if found else text
