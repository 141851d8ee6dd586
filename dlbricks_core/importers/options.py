"""What the user says about how models are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class LoadOptions:
    """How models are read and brought into canonical form.

    What goes by a name is for every model that knows the name; ``MODEL:NAME`` is for one alone,
    with the model's name, its file's, or the argument that it was loaded by.

    Attributes:
        batch: Size of dynamic batch axes.
        dims: Sizes of other dynamic dimensions, by name.
        shapes: Whole input shapes, by input.
        fold_batchnorm: Whether to fold BatchNormalization into the layer before it.
        values: Numbers that inputs always hold, by input.
    """

    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fold_batchnorm: bool = False
    values: Mapping[str, float] = field(default_factory=dict)

    def of(self, model: str, *aliases: str) -> LoadOptions:
        """The same for one model: what is for it alone goes before what is for all.

        Args:
            model: Its name.
            aliases: What else it goes by.
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
