"""The only import of MXNet, made to work with the numpy of today."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from dlbricks_core.errors import PluginError

NDArray = Any
"""An ``mxnet.nd.NDArray``: MXNet has no type information."""

#: Time and line of MXNet's own sources, which its messages begin with.
_PLACE = re.compile(r"^\w*MXNetError: |\[\d\d:\d\d:\d\d\] \S+:\d+: ")

_CONDITION = re.compile(r"Check failed: (?:.*? : (?=\S))?")
"""Condition of a failed check in C++, where words follow it."""

_UNUSED = ("scipy.stats", "sklearn")
"""Modules that MXNet imports if they are there, for quantizing and for one of its interfaces to
models. Neither is used here, and importing both takes as long as importing MXNet."""


def import_mxnet() -> ModuleType:
    """Imports MXNet, without optional packages; cheap after the first call.

    Raises:
        PluginError: If MXNet is not installed or does not work with what is installed.
    """
    # MXNet 1.9.1 reads numpy.bool, which numpy dropped in 1.24 and brought back in 2.0.
    if "bool" not in vars(np):
        np.bool = np.bool_  # type: ignore[attr-defined]
    try:
        with _hidden(_UNUSED):
            return importlib.import_module("mxnet")
    except (ImportError, AttributeError, OSError) as error:
        raise PluginError(
            f"MXNet cannot be imported: {error}",
            hint="Install the plugin again: it names the versions of MXNet and numpy that work.",
        ) from error


@contextmanager
def _hidden(names: Sequence[str]) -> Iterator[None]:
    """Lets imports not find these modules, unless they are imported already."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: not to be found
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def one_line(error: Exception) -> str:
    """Message of an MXNet error in one line, without the stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "Check failed" in line]
    text = (told or lines or [type(error).__name__])[-1]
    return in_words(" ".join(_PLACE.sub("", text).split()))


def in_words(check: str) -> str:
    """Message of a failed check: its words, or the condition in C++ where it has none."""
    return _CONDITION.sub("", check)
