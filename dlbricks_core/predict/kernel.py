"""The kernel: covariance of the baseline's errors between layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self
from zlib import crc32

import numpy as np

from dlbricks_core.figures.statistics import FloatArray, Indices
from dlbricks_core.predict.features import NAMES, Features
from dlbricks_core.predict.kinds import class_of

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
        """Short text that equal kernels share, and no others."""
        return f"{crc32(repr(self).encode()):08x}"

    def covariance(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance matrix between the layers of two lists.

        Returns:
            Array of shape (layers of ``rows``, layers of ``columns``).
        """
        return self.common + self.within(rows, columns)

    def within(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance matrix without what all layers share: 0 between layers of different classes.

        Returns:
            Array of shape (layers of ``rows``, layers of ``columns``).
        """
        first, second = _classes(rows), _classes(columns)
        if len({*first, *second}) == 1:
            return self._of_class(rows, columns)
        found = np.zeros((len(rows.kinds), len(columns.kinds)))
        for one, other in _blocks(first, second):
            found[np.ix_(one, other)] = self._of_class(rows.part(one), columns.part(other))
        return found

    def _of_class(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance within each class, beyond the variance that all layers share."""
        smooth = _squares(rows, columns, self.smooth_scales)
        smooth *= -0.5
        np.exp(smooth, out=smooth)
        found = self.class_smooth * smooth
        found += self.of_class
        for first, second in _blocks(rows.kinds, columns.kinds):
            block = np.ix_(first, second)
            part = self._rough(rows.part(first), columns.part(second))
            part += self.smooth * smooth[block]
            part += self.of_kind
            found[block] += part
        return found

    def _rough(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance within a kind that ends at short distances."""
        squares = _squares(rows, columns, self.rough_scales)
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


def _classes(features: Features) -> tuple[str, ...]:
    return tuple(class_of(kind) for kind in features.kinds)


def _blocks(rows: tuple[str, ...], columns: tuple[str, ...]) -> Iterator[tuple[Indices, Indices]]:
    """Rows and columns of each name in both lists; most pairs of layers share no name."""
    first, second = np.array(rows), np.array(columns)
    for name in dict.fromkeys(rows):
        if name in columns:
            yield np.flatnonzero(first == name), np.flatnonzero(second == name)


def _squares(rows: Features, columns: Features, scales: tuple[float, ...]) -> FloatArray:
    """Squared distances between layers, in units of the scales."""
    first, second = rows.numbers / np.array(scales), columns.numbers / np.array(scales)
    one, other = (first**2).sum(1)[:, None], (second**2).sum(1)[:, None]
    # One product adds the squares of both, in the time of a product of the numbers alone.
    left = np.concatenate([-2 * first, one, np.ones_like(one)], axis=1)
    right = np.concatenate([second, np.ones_like(other), other], axis=1)
    squares = left @ right.T
    return np.asarray(np.maximum(squares, 0.0, out=squares))
