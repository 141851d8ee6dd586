"""Sizes of a model's open dimensions, and grids of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.passes.options import OpenDimension
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
        words: Meaning of the sizes for the user; empty if the names of the dimensions suffice.
        phase: Phase of an answer with these sizes: ``prompt``, or ``token`` in all other cases.
    """

    dims: tuple[tuple[str, int], ...] = ()
    batch: int | None = None
    words: str = ""
    phase: str = field(default="token", compare=False)

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


Axes = Mapping[str, Sequence[int | tuple[int, ...]]]
"""Sizes by the names of axes. An axis of dimensions that vary together (``batch,sequence``) has
tuples with a size for each."""


def grid(axes: Axes) -> Iterator[dict[str, int]]:
    """All combinations of sizes by the names of dimensions; the last axis varies fastest."""
    for sizes in product(*axes.values()):
        yield {
            dimension: size
            for name, together in zip(axes, sizes, strict=True)
            for dimension, size in zip(name.split(","), _several(together), strict=True)
        }


def by_dimension(axes: Axes) -> dict[str, tuple[int, ...]]:
    """Sizes by the names of dimensions, with axes of several dimensions split."""
    return {
        dimension: tuple(_several(each)[place] for each in sizes)
        for name, sizes in axes.items()
        for place, dimension in enumerate(name.split(","))
    }


def _several(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,)


def check_axes(axes: Axes) -> None:
    """Checks the axes of a grid.

    Raises:
        DLBricksError: If an axis has no sizes, a negative size, or a wrong number of sizes for its
            dimensions; if a dimension is in two axes; or if there are too many points.
    """
    for name, sizes in axes.items():
        every = [_several(each) for each in sizes]
        among = name.count(",") + 1
        if not every or any(len(each) != among or min(each) < 0 for each in every):
            shown = ",".join("x".join(map(str, each)) for each in every) or "nothing"
            example = ",".join("x".join([size] * among) for size in ("1", "128", "512"))
            raise DLBricksError(
                f"{argument('sweep')} {name}={shown} is not a list of sizes",
                hint=f"Write sizes with commas between: {name}={example}.",
            )
    ((most, times),) = Counter(",".join(axes).split(",")).most_common(1)
    if times > 1:
        raise DLBricksError(f"{argument('sweep')} has {most} twice", hint="Name it once.")
    points = math.prod(map(len, axes.values()))
    if points > _MOST:
        raise DLBricksError(
            f"{argument('sweep')} has {points} points", hint=f"Use {_MOST} or fewer."
        )


def opened(dimensions: Sequence[OpenDimension]) -> str:
    """A sentence on the open dimensions of a model."""
    names = dict.fromkeys(name for each in dimensions for name in sorted(each.symbols))
    return f"Open dimensions: {', '.join(names)}." if names else "It has no open dimension."
