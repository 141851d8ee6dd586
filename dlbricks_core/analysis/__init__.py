"""Work and likeness of models, found without running them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.analysis.likeness import Volume, form
    from dlbricks_core.analysis.work import Work, layer_bytes, layer_flops

__all__ = [
    "Volume",
    "Work",
    "form",
    "layer_bytes",
    "layer_flops",
]

lazy(__name__)
