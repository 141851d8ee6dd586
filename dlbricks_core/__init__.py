"""DLBricks: estimate deep-learning latency on CPUs from short layer sequences.

Examples:
    >>> import dlbricks  # tables need pandas
    >>> dlbricks.estimate("resnet.onnx", backend="onnxruntime").to_frame()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.errors import DLBricksError
from dlbricks_core.lazy import lazy
from dlbricks_core.version import __version__

if TYPE_CHECKING:
    from dlbricks_core.api import Measuring, cut, estimate, harvest, load, time

__all__ = [
    "DLBricksError",
    "Measuring",
    "__version__",
    "cut",
    "estimate",
    "harvest",
    "load",
    "time",
]

lazy(__name__)
