"""Copies of a network beside each other, as one network."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel


def side_by_side(model: CanonicalModel, copies: int) -> CanonicalModel:
    """A network of several copies of a network, which share no tensor and run one after the other.

    Args:
        model: Model in canonical form.
        copies: Number of copies, 1 or more.
    """
    numbered = [_renamed(model, f"c{number}_") for number in range(copies)]
    return replace(
        model,
        layers=tuple(layer for each in numbered for layer in each.layers),
        inputs=tuple(name for each in numbered for name in each.inputs),
        outputs=tuple(name for each in numbered for name in each.outputs),
        tensors={name: spec for each in numbered for name, spec in each.tensors.items()},
        weights=frozenset().union(*(each.weights for each in numbered)),
        constants={name: value for each in numbered for name, value in each.constants.items()},
    )


def _renamed(model: CanonicalModel, prefix: str) -> CanonicalModel:
    """The model with a prefix before the names of all its tensors and layers."""

    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name and prefix + name for name in names)

    return replace(
        model,
        layers=tuple(
            replace(
                layer,
                name=prefix + layer.name,
                inputs=named(layer.inputs),
                outputs=named(layer.outputs),
                captures=named(layer.captures),
            )
            for layer in model.layers
        ),
        inputs=named(model.inputs),
        outputs=named(model.outputs),
        tensors={prefix + name: spec for name, spec in model.tensors.items()},
        weights=frozenset(prefix + name for name in model.weights),
        constants={prefix + name: value for name, value in model.constants.items()},
    )
