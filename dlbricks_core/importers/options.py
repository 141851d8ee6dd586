"""Options of the user for reading models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dlbricks_core.passes.options import InputValue


@dataclass(frozen=True)
class LoadOptions:
    """Options for reading models and for bringing them into canonical form.

    A name applies to every model that has it. ``MODEL:NAME`` applies to one model alone; MODEL is
    the model's name, the name of its file, or the argument that loaded it.

    Attributes:
        batch: Size of dynamic batch axes.
        dims: Sizes of other dynamic dimensions, by name.
        shapes: Whole input shapes, by input.
        fold_batchnorm: Whether to fold BatchNormalization into the layer before it.
        values: Constant values of inputs, by input: one number for all elements, or one for each
            element; ``None`` for an optional input that is left out.
        outputs: Outputs that are kept, with the layers that they need; empty for all outputs.
        dtype: Name of the conversion to another element type; ``None`` for no conversion.
    """

    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fold_batchnorm: bool = False
    values: Mapping[str, InputValue] = field(default_factory=dict)
    dtype: str | None = None
    outputs: tuple[str, ...] = ()

    def of(self, model: str, *aliases: str) -> LoadOptions:
        """Options for one model; an option for this model overrides the option for all models.

        Args:
            model: Name of the model.
            aliases: Other names of the model.
        """
        prefixes = [f"{each}:" for each in (model, *aliases)]

        def named(given: Mapping[str, Any]) -> dict[str, Any]:
            own = {
                key.removeprefix(prefix): value
                for prefix in prefixes
                for key, value in given.items()
                if key.startswith(prefix)
            }
            return {**given, **own}

        return replace(
            self, dims=named(self.dims), shapes=named(self.shapes), values=named(self.values)
        )
