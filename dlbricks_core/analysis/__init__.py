"""Repetition, similarity and work of models, found without running them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.analysis.likeness import Volume, form
    from dlbricks_core.analysis.work import (
        Analysis,
        Count,
        ModelAnalysis,
        Repetition,
        Similarity,
        Work,
        analyze,
        jaccard,
        layer_bytes,
        layer_flops,
    )

__all__ = [
    "Analysis",
    "Count",
    "ModelAnalysis",
    "Repetition",
    "Similarity",
    "Volume",
    "Work",
    "analyze",
    "form",
    "jaccard",
    "layer_bytes",
    "layer_flops",
]

lazy(__name__)
