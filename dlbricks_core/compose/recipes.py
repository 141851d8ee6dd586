"""Recipes: how the figure of a brick follows from figures that are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlbricks_core.figures.figure import Derived, Source

if TYPE_CHECKING:
    from dlbricks_core.figures.figure import Figure


class Recipe(ABC):
    """Rule that computes the figure of one brick."""

    @property
    @abstractmethod
    def weights(self) -> Mapping[str, float]:
        """Factor of each figure that the recipe needs in the brick's figure, by signature."""

    @abstractmethod
    def figure(self, known: Mapping[str, Figure]) -> Figure | None:
        """The brick's figure; ``None`` if the needed figures are missing.

        Args:
            known: Figures by signature.
        """


@dataclass(frozen=True)
class OwnFigure(Recipe):
    """The figure of the brick itself.

    Attributes:
        signature: Of the brick.
    """

    signature: str

    @property
    def weights(self) -> Mapping[str, float]:
        """The brick alone, once."""
        return {self.signature: 1.0}

    def figure(self, known: Mapping[str, Figure]) -> Figure | None:
        """The known figure as it is."""
        return known.get(self.signature)


@dataclass(frozen=True)
class Scaled(Recipe):
    """The figure of one other network, times a ratio.

    Attributes:
        signature: Of the brick.
        source: Signature of the other network.
        ratio: Value of the brick over the value of the other network, both without overhead.
        error: Standard deviation of the ratio's relative error.
    """

    signature: str
    source: str
    ratio: float
    error: float

    @property
    def weights(self) -> Mapping[str, float]:
        """The other network, times the ratio."""
        return {self.source: self.ratio}

    def figure(self, known: Mapping[str, Figure]) -> Figure | None:
        """A derived figure."""
        figure = known.get(self.source)
        if figure is None:
            return None
        source = Source(self.source, figure, self.ratio)
        return Derived.of(self.signature, source, self.error)


@dataclass(frozen=True)
class FromPredictor(Recipe):
    """A fixed figure of the brick.

    Attributes:
        predicted: Figure from a predictor, which may have used the brick's samples, or from
            profiles of running models.
    """

    predicted: Figure

    @property
    def weights(self) -> Mapping[str, float]:
        """No weights: the figure needs no timed network."""
        return {}

    def figure(self, known: Mapping[str, Figure]) -> Figure | None:
        """The predictor's figure, regardless of other figures."""
        return self.predicted
