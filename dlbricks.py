"""``import dlbricks``: the Python API of DLBricks by the name of its command.

Examples:
    >>> import dlbricks  # tables need pandas
    >>> dlbricks.estimate("resnet.onnx", backend="onnxruntime").to_frame()  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import dlbricks_core
from dlbricks_core import __all__  # noqa: F401 - the names are the core's

if TYPE_CHECKING:
    from dlbricks_core import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """A public name of the core, or the function of a command that a distribution brings."""
    if name in dlbricks_core.__all__ or name.startswith("_"):
        return getattr(dlbricks_core, name)
    from dlbricks_core.commands.command import DISTRIBUTIONS, FUNCTIONS

    if (distribution := FUNCTIONS.get(name) or DISTRIBUTIONS.get(name)) is None:
        return getattr(dlbricks_core, name)
    try:
        return getattr(import_module(distribution.replace("-", "_")), name)
    except ModuleNotFoundError as error:
        why = f"{name!r} is in the distribution {distribution}, which is not installed"
        raise AttributeError(why) from error


def __dir__() -> list[str]:
    return dir(dlbricks_core)
