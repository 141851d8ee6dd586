"""Repetition, similarity and work of models, found without running them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.analysis.likeness import Volume, form
    from dlbricks_core.analysis.modules import Module, Modules, repeated_modules
    from dlbricks_core.analysis.outline import Chain, Outline, Repeated, Terminal, outline
    from dlbricks_core.analysis.work import (
        Analysis,
        Basis,
        Count,
        LayerCosts,
        ModelAnalysis,
        Repetition,
        Similarity,
        Work,
        analyze,
        critical_path,
        jaccard,
        layer_bytes,
        layer_flops,
    )

__all__ = [
    "Analysis",
    "Basis",
    "Chain",
    "Count",
    "LayerCosts",
    "ModelAnalysis",
    "Module",
    "Modules",
    "Outline",
    "Repeated",
    "Repetition",
    "Similarity",
    "Terminal",
    "Volume",
    "Work",
    "analyze",
    "critical_path",
    "form",
    "jaccard",
    "layer_bytes",
    "layer_flops",
    "outline",
    "repeated_modules",
]

lazy(__name__)
