"""The kernel: covariance of the baseline's errors between layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self
from zlib import crc32

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.figures.statistics import FloatArray, Indices
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.kinds import class_of

_AT_ONCE = 12_000
"""Number of pairs of layers that are computed at once: matrices that stay in the caches of a core,
in memory that the process has already."""

_SAME = 1e-4
"""Distance below which two layers are one: rounding leaves about a tenth of it."""


@dataclass(frozen=True)
class Kernel:
    """Covariance of the logarithms of measured over expected latency, between layers.

    It is the sum of a variance that all layers share, one for each class, one for each kind, one
    for each layer, and two functions of the distance between features: a smooth one, and a rough
    one (Matérn, of order 5/2; Rasmussen and Williams, Gaussian Processes for Machine Learning,
    2006, chapter 4).

    Attributes:
        common: Variance that all layers share.
        of_class: Variance that layers of one class share.
        of_kind: Variance that layers of one kind share.
        class_smooth: Variance of the smooth function of a class.
        smooth: Variance of the smooth function of a kind.
        rough: Variance of the rough function of a kind.
        smooth_scales: Length scale of the smooth functions in each feature.
        rough_scales: Length scale of the rough function in each feature.
        noise: Variance of a network's logarithm that no layer explains.
        own: Variance of each layer that its features do not explain. Without it, smooth functions
            would have to pass through all measured layers, and swing widely between them.
    """

    common: float
    of_class: float
    of_kind: float
    class_smooth: float
    smooth: float
    rough: float
    smooth_scales: tuple[float, ...]
    rough_scales: tuple[float, ...]
    noise: float
    own: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.smooth_scales) == len(self.rough_scales) == len(NAMES):
            raise ValueError(f"a kernel has {len(NAMES)} scales of each sort")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The kernel from plain data, as written by :func:`dataclasses.asdict`."""
        scales = {name: tuple(data[name]) for name in ("smooth_scales", "rough_scales")}
        return cls(**{**data, **scales})

    @cached_property
    def identity(self) -> str:
        """Short text, equal for equal kernels and for no others."""
        return f"{crc32(repr(self).encode()):08x}"

    def covariance(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance matrix between the layers of two lists.

        Returns:
            Array of shape (layers of ``rows``, layers of ``columns``).
        """
        return self.common + self.within(rows, columns)

    def within(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance matrix without the variance that all layers share: 0 between two classes.

        Returns:
            Array of shape (layers of ``rows``, layers of ``columns``).
        """
        first, second = (tuple(map(class_of, each.kinds)) for each in (rows, columns))
        if len({*first, *second}) == 1:
            return self._of_class(rows, columns)
        found = np.zeros((len(rows.kinds), len(columns.kinds)))
        for one, other in _alike(first, second):
            found[np.ix_(one, other)] = self._of_class(rows.part(one), columns.part(other))
        return found

    def _of_class(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance within each class, beyond the variance that all layers share."""
        # A power of two scales without rounding.
        smooth = _Pairs.of(rows, columns, self.smooth_scales).times(-0.5)
        rough = _Pairs.of(rows, columns, self.rough_scales)
        found = np.empty((len(rows.kinds), len(columns.kinds)))
        most = max(_AT_ONCE // max(len(columns.kinds), 1), 1)
        # The same memory each time: new memory costs more than the numbers.
        nears, wholes = np.empty((2, most, len(columns.kinds)))
        for layers, alike in _alike(rows.kinds, columns.kinds):
            for some in np.split(layers, range(most, len(layers), most)):
                near, whole = nears[: len(some)], wholes[: len(some)]
                np.minimum(smooth.products(some, out=near), 0.0, out=near)
                np.exp(near, out=near)
                np.multiply(near, self.class_smooth, out=whole)
                whole += self.of_class
                if len(alike):
                    part = self._rough(rough.products(some, alike))
                    part += self.smooth * near[:, alike]
                    part += self.of_kind
                    whole[:, alike] += part
                found[some] = whole
        return found

    def _rough(self, squares: FloatArray) -> FloatArray:
        """Covariance within a kind that ends at short distances; squared distances are replaced."""
        np.maximum(squares, 0.0, out=squares)
        squares *= 5
        distance = np.sqrt(squares)
        same = distance < _SAME
        squares /= 3
        squares += distance
        squares += 1
        np.negative(distance, out=distance)
        squares *= np.exp(distance, out=distance)
        squares *= self.rough
        squares[same] += self.own
        return squares


@cache
def kernel_of(backend: str) -> Kernel:
    """The kernel fitted to a backend; for an unknown backend, the kernel fitted to all."""
    return Kernel.from_dict(fitted.of_backend(__file__, "kernel", backend))


@dataclass(frozen=True)
class _Pairs:
    """Rows and columns whose product are the squared distances between layers.

    Attributes:
        left: A row for each layer of the rows.
        right: A row for each layer of the columns.
    """

    left: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, rows: Features, columns: Features, scales: tuple[float, ...]) -> Self:
        """The pairs of layers, with distances in units of the scales."""
        first, second = rows.numbers / np.array(scales), columns.numbers / np.array(scales)
        one, other = (first**2).sum(1)[:, None], (second**2).sum(1)[:, None]
        # One product adds the squares of both, in the time of a product of the numbers alone.
        return cls(
            np.concatenate([-2 * first, one, np.ones_like(one)], axis=1),
            np.concatenate([second, np.ones_like(other), other], axis=1),
        )

    def times(self, factor: float) -> Self:
        """Distances whose products are multiplied by a factor."""
        return replace(self, left=factor * self.left)

    def products(
        self, rows: Indices, columns: Indices | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Squared distances between some of the layers; rounding may make them negative."""
        right = self.right if columns is None else self.right[columns]
        return np.matmul(self.left[rows], right.T, out=out)


def _alike(rows: tuple[str, ...], columns: tuple[str, ...]) -> Iterator[tuple[Indices, Indices]]:
    """Rows of each name with the columns of that name. Rows without such columns come last."""
    shared = _places(columns)
    first = _places(tuple(name if name in shared else "" for name in rows))
    for name, places in first.items():
        if name:
            yield places, shared[name]
    if "" in first:
        yield first[""], np.zeros(0, dtype=np.intp)


def _places(names: tuple[str, ...]) -> Mapping[str, Indices]:
    """Positions of each name."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name, []).append(place)
    return {name: np.array(places, dtype=np.intp) for name, places in found.items()}
