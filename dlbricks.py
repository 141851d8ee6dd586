"""``import dlbricks``: the Python API of DLBricks by the name of its command.

Examples:
    >>> import dlbricks  # tables need pandas
    >>> dlbricks.estimate("resnet.onnx", backend="onnxruntime").to_frame()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dlbricks_core
from dlbricks_core import __all__  # noqa: F401 - the names are the core's

if TYPE_CHECKING:
    from dlbricks_core import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """A public name of the core, whose module is imported now."""
    return getattr(dlbricks_core, name)


def __dir__() -> list[str]:
    return dir(dlbricks_core)
