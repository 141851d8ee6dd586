"""What models consist of and have in common: pure computation, nothing runs."""

from dlbricks_core.analysis.flops import FLOPS, layer_flops
from dlbricks_core.analysis.models import Analysis, ModelAnalysis, analyze
from dlbricks_core.analysis.repetition import Count, Repetition
from dlbricks_core.analysis.similarity import Pair, Similarity, jaccard
from dlbricks_core.analysis.work import Work, layer_bytes

__all__ = [
    "FLOPS",
    "Analysis",
    "Count",
    "ModelAnalysis",
    "Pair",
    "Repetition",
    "Similarity",
    "Work",
    "analyze",
    "jaccard",
    "layer_bytes",
    "layer_flops",
]
