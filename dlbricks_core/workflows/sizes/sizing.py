"""Sizes of a model's open dimensions, and grids of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.passes.dimensions import OpenDimension
from dlbricks_core.wording import argument

BATCH = "batch"
"""Name of the batch axes in a sweep."""

_MOST = 200
"""Maximum number of points of a grid: each is a model to import, cut and compose."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model's open dimensions.

    Attributes:
        dims: Sizes by the names of dimensions, in display order.
        batch: Size of batch axes; ``None`` for the size in the options.
        words: Meaning of the sizes for the user; empty where the names of the dimensions suffice.
    """

    dims: tuple[tuple[str, int], ...] = ()
    batch: int | None = None
    words: str = ""

    def options(self, others: LoadOptions) -> LoadOptions:
        """How to read the model at these sizes.

        Args:
            others: Options for all other aspects.
        """
        batch = others.batch if self.batch is None else self.batch
        return replace(others, batch=batch, dims={**others.dims, **dict(self.dims)})

    @property
    def text(self) -> str:
        """Text for the user, such as ``sequence=1, past=512``."""
        if self.words:
            return self.words
        batch = [] if self.batch is None else [(BATCH, self.batch)]
        return ", ".join(f"{name}={size}" for name, size in (*self.dims, *batch))


def grid(axes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """All combinations of sizes; the last axis varies fastest.

    Args:
        axes: Sizes by the names of the axes.
    """
    for sizes in product(*axes.values()):
        yield dict(zip(axes, sizes, strict=True))


def check_axes(axes: Mapping[str, Sequence[int]]) -> None:
    """Checks the axes of a grid.

    Raises:
        DLBricksError: If an axis has no sizes or a negative size, or there are too many points.
    """
    for name, sizes in axes.items():
        if not sizes or min(sizes) < 0:
            shown = ",".join(map(str, sizes)) or "nothing"
            raise DLBricksError(
                f"{argument('sweep')} {name}={shown} is not a list of sizes",
                hint=f"Write sizes with commas between: {name}=1,128,512.",
            )
    points = math.prod(map(len, axes.values()))
    if points > _MOST:
        raise DLBricksError(
            f"{argument('sweep')} asks for {points} points", hint=f"Ask for {_MOST} or fewer."
        )


def opened(dimensions: Sequence[OpenDimension]) -> str:
    """A sentence on the open dimensions of a model."""
    names = dict.fromkeys(name for each in dimensions for name in sorted(each.symbols))
    return f"It leaves open: {', '.join(names)}." if names else "It leaves none open."
