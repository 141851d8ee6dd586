"""Plans: bricks to time, and recipes, by which the figure of a brick follows from known figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from dlbricks_core.figures.figure import Derived, Source

if TYPE_CHECKING:
    from dlbricks_core.bricks import Brick
    from dlbricks_core.figures.figure import Figure
    from dlbricks_core.figures.predicted import Predicted


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


@dataclass(frozen=True)
class Plan:
    """The timed bricks of a set, and recipes for the figure of each brick.

    Attributes:
        timed: Bricks of the set to time, by signature.
        recipes: Recipes of each brick of the set, by signature, the best first. A brick's figure
            comes from the first recipe that gives a figure. If all timing succeeds, at least one
            recipe of each brick gives a figure; the other recipes serve if timing fails.

    Raises:
        ValueError: If ``timed`` has a network outside of the set, or no recipe of a brick can be
            followed with the timed bricks.
    """

    timed: Mapping[str, Brick]
    recipes: Mapping[str, Sequence[Recipe]]

    def __post_init__(self) -> None:
        if others := self.timed.keys() - self.recipes.keys():
            raise ValueError(f"{len(others)} networks to be timed are no bricks of the set")
        for signature in self.recipes:
            self._intended(signature)

    @classmethod
    def all_timed(cls, bricks: Mapping[str, Brick]) -> Self:
        """The plan that times each brick of the set."""
        return cls(bricks, {signature: (OwnFigure(signature),) for signature in bricks})

    @property
    def not_timed(self) -> AbstractSet[str]:
        """Signatures of the bricks whose figures are derived from other bricks."""
        return self.recipes.keys() - self.timed.keys()

    def predicting(self, figures: Mapping[str, Predicted]) -> Self:
        """A copy of the plan with a predictor's figures for bricks without another recipe.

        Args:
            figures: Predicted figures of bricks, or of whole models in place of their bricks, by
                signature.
        """
        added = {
            signature: (*self.recipes.get(signature, ()), FromPredictor(figure))
            for signature, figure in figures.items()
        }
        return replace(self, recipes={**self.recipes, **added})

    def believing(self, figures: Mapping[str, Figure], timed: Iterable[str]) -> Self:
        """The plan in which a predictor's figures come before all others.

        Args:
            figures: Figures that the predictor gave for bricks, by signature.
            timed: Signatures of bricks to time. Bricks without a figure are timed as well.
        """
        chosen = {*timed, *(self.recipes.keys() - figures.keys())}
        believed = {signature: (FromPredictor(figure),) for signature, figure in figures.items()}
        return replace(
            self,
            timed={signature: b for signature, b in self.timed.items() if signature in chosen},
            recipes={**self.recipes, **believed},
        )

    def sources(self, signature: str) -> Sequence[str]:
        """Signatures of the timed networks that a brick's figure follows from."""
        return tuple(self._intended(signature).weights)

    def weights(self, counts: Mapping[str, int]) -> Mapping[str, float]:
        """Factor of each timed network's figure in a sum over bricks, by signature.

        Args:
            counts: How often each brick is in the sum, by signature.
        """
        found: dict[str, float] = {}
        for brick, count in counts.items():
            for source, weight in self._intended(brick).weights.items():
                found[source] = found.get(source, 0.0) + count * weight
        return found

    def figures(self, known: Mapping[str, Figure]) -> Mapping[str, Figure]:
        """Known figures, and figures derived from them, by signature.

        Args:
            known: Figures of timed bricks, by signature; some may be missing.
        """
        found = dict(known)
        for signature, recipes in self.recipes.items():
            each = (recipe.figure(known) for recipe in recipes)
            figure = next((figure for figure in each if figure is not None), None)
            if figure is not None:
                found[signature] = figure
        return found

    def _intended(self, signature: str) -> Recipe:
        """The first recipe of a brick that needs only timed bricks."""
        for recipe in self.recipes[signature]:
            if recipe.weights.keys() <= self.timed.keys():
                return recipe
        raise ValueError(f"no timed brick gives a figure for brick {signature}")
