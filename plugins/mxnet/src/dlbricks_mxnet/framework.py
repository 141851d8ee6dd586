"""The only import of MXNet, made to work with the numpy of today."""

from __future__ import annotations

import importlib
import re
from types import ModuleType
from typing import Any

import numpy as np

from dlbricks_core.errors import PluginError

NDArray = Any
"""An ``mxnet.nd.NDArray``: MXNet has no type information."""

#: Time and line of MXNet's own sources, which its messages begin with.
_PLACE = re.compile(r"^\w*MXNetError: |\[\d\d:\d\d:\d\d\] \S+:\d+: ")


def import_mxnet() -> ModuleType:
    """Imports MXNet; cheap after the first call.

    Raises:
        PluginError: If MXNet is not installed or does not work with what is installed.
    """
    # MXNet 1.9.1 reads numpy.bool, which numpy dropped in 1.24 and brought back in 2.0.
    if "bool" not in vars(np):
        np.bool = np.bool_  # type: ignore[attr-defined]
    try:
        return importlib.import_module("mxnet")
    except (ImportError, AttributeError, OSError) as error:
        raise PluginError(
            f"MXNet cannot be imported: {error}",
            hint="Install the plugin again: it names the versions of MXNet and numpy that work.",
        ) from error


def one_line(error: Exception) -> str:
    """Message of an MXNet error in one line, without the stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "Check failed" in line]
    text = (told or lines or [type(error).__name__])[-1]
    return " ".join(_PLACE.sub("", text).split())
