"""Plans: bricks to time, and recipes for the figure of each brick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from dlbricks_core.compose.recipes import FromPredictor, OwnFigure

if TYPE_CHECKING:
    from dlbricks_core.bricks import Brick
    from dlbricks_core.compose.recipes import Recipe
    from dlbricks_core.figures.figure import Figure
    from dlbricks_core.figures.predicted import Predicted


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
