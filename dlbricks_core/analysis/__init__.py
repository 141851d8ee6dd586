"""Repetition, similarity and work of models, found without running them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.analysis.critical import Basis, LayerCosts, critical_path
    from dlbricks_core.analysis.flops import layer_flops
    from dlbricks_core.analysis.likeness import Volume, form
    from dlbricks_core.analysis.models import Analysis, ModelAnalysis, analyze
    from dlbricks_core.analysis.modules import Module, Modules, repeated_modules
    from dlbricks_core.analysis.outline import Chain, Outline, Repeated, Terminal, outline
    from dlbricks_core.analysis.repetition import Count, Repetition
    from dlbricks_core.analysis.similarity import Pair, Similarity, jaccard
    from dlbricks_core.analysis.work import Operations, Work, layer_bytes

__all__ = [
    "Analysis",
    "Basis",
    "Chain",
    "Count",
    "LayerCosts",
    "ModelAnalysis",
    "Module",
    "Modules",
    "Operations",
    "Outline",
    "Pair",
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
