"""Attack by knowledge: finds bricks that published models have as well."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from dlbricks_core.bricks import Brick
from dlbricks_core.ir import CanonicalModel

Skeleton = tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Published:
    """An attacker's knowledge of published models."""

    models: dict[str, frozenset[str]]  #: Signatures of each model's bricks, by the model's name.
    skeletons: frozenset[Skeleton]  #: Operators and windows of their bricks, without sizes.

    @classmethod
    def of(cls, models: Iterable[tuple[str, Sequence[Brick]]]) -> Self:
        """Knowledge of models, from their names and bricks."""
        listed = [(name, list(bricks)) for name, bricks in models]
        return cls(
            {name: frozenset(each.signature for each in bricks) for name, bricks in listed},
            frozenset(skeleton(each.model) for _, bricks in listed for each in bricks),
        )

    def is_known(self, brick: Brick) -> bool:
        """Whether a published model has exactly this brick."""
        return any(brick.signature in bricks for bricks in self.models.values())

    def is_of_known_form(self, brick: Brick) -> bool:
        """Whether a published model has a brick that differs only in sizes."""
        return skeleton(brick.model) in self.skeletons

    def complete(self, signatures: Collection[str]) -> list[str]:
        """Names of the published models whose bricks are all among the given signatures."""
        held = set(signatures)
        return [name for name, bricks in self.models.items() if bricks and bricks <= held]


def skeleton(model: CanonicalModel) -> Skeleton:
    """Operators, windows and kinds of groups of a sequence's layers, without sizes."""
    return tuple(
        (
            layer.qualified_op,
            layer.attributes.get("kernel_shape"),
            layer.attributes.get("strides"),
            layer.attributes.get("group", 1) != 1,
        )
        for layer in model.layers
    )
