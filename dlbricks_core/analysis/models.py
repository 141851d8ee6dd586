"""Analysis of models: repetition, similarity and work, without running them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlbricks_core.analysis.repetition import Repetition
from dlbricks_core.analysis.similarity import Similarity
from dlbricks_core.analysis.work import Operations, Work
from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.ir import CanonicalModel


@dataclass(frozen=True)
class ModelAnalysis:
    """One model: its layers, their repetition within it, and their work."""

    cut: CutModel
    repetition: Repetition
    work: Work

    @property
    def name(self) -> str:
        """The user's name of the model."""
        return self.cut.model.name


@dataclass(frozen=True)
class Analysis:
    """Several models, each on its own and together.

    Attributes:
        models: In the order in which they were given.
        repetition: Repetition of layers within and across the models.
        similarity: Similarity of every two models.
        operations: Operations of all layers, and of unique layers.
    """

    models: Sequence[ModelAnalysis]
    repetition: Repetition
    similarity: Similarity
    operations: Operations


def analyze(models: Iterable[CanonicalModel]) -> Analysis:
    """Analyzes models in canonical form, layer by layer.

    Example:
        >>> analyze([first, second]).similarity.matrix[0][1]
    """
    cuts = BrickSet.of(models).models
    each = [ModelAnalysis(cut, Repetition.of([cut]), Work.of(cut.model)) for cut in cuts]
    return Analysis(each, Repetition.of(cuts), Similarity.of(cuts), Operations.of(cuts))
