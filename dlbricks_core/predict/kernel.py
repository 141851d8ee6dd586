"""The kernel: how much the errors of the baseline have in common, from layer to layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self
from zlib import crc32

import numpy as np

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.features import NAMES, Features, class_of

_Indices = np.ndarray[Any, np.dtype[np.intp]]


@dataclass(frozen=True)
class Kernel:
    """Covariance of the logarithms of measured over expected latency, between layers.

    It is a sum of variances that all layers have in common, those of one class, those of one
    kind, and of two functions of the distance between features: a smooth one, and a rough one
    (Matérn, of order 5/2; Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006,
    chapter 4).

    Attributes:
        common: Variance that all layers share.
        of_class: Variance that layers of one class share.
        of_kind: Variance that layers of one kind share.
        class_smooth: Variance of the smooth function of a class.
        smooth: Variance of the smooth function of a kind.
        rough: Variance of the rough function of a kind.
        smooth_scales: Distance in each feature over which the smooth functions change.
        rough_scales: The same for the rough function.
        noise: Variance of a network's logarithm that no layer accounts for.
        alone: Standard deviation of each error that networks timed alone have in common; see
            :func:`~dlbricks_core.predict.alone.alone_effects`.
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
    alone: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.smooth_scales) == len(self.rough_scales) == len(NAMES):
            raise ValueError(f"a kernel has {len(NAMES)} scales of each sort")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The kernel of plain data, as :func:`dataclasses.asdict` gives them."""
        scales = {name: tuple(data[name]) for name in ("smooth_scales", "rough_scales")}
        return cls(**{**data, **scales})

    @cached_property
    def identity(self) -> str:
        """Short text that equal kernels share, and no others."""
        return f"{crc32(repr(self).encode()):08x}"

    def covariance(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance of each layer of one list with each layer of another.

        Returns:
            Array of shape (layers of ``rows``, layers of ``columns``).
        """
        found = np.full((len(rows.kinds), len(columns.kinds)), self.common)
        for first, second in _blocks(_classes(rows), _classes(columns)):
            block = self._of_class(_part(rows, first), _part(columns, second))
            found[np.ix_(first, second)] += block
        return np.asarray(found)

    def _of_class(self, rows: Features, columns: Features) -> FloatArray:
        """What layers of one class have in common beyond what all layers have."""
        smooth = np.exp(-_squares(rows, columns, self.smooth_scales) / 2)
        found = self.of_class + self.class_smooth * smooth
        for first, second in _blocks(rows.kinds, columns.kinds):
            block = np.ix_(first, second)
            own = _part(rows, first), _part(columns, second)
            distance = np.sqrt(5 * _squares(*own, self.rough_scales))
            rough = (1 + distance + distance**2 / 3) * np.exp(-distance)
            found[block] += self.of_kind + self.smooth * smooth[block] + self.rough * rough
        return np.asarray(found)


def _classes(features: Features) -> tuple[str, ...]:
    return tuple(class_of(kind) for kind in features.kinds)


def _blocks(rows: tuple[str, ...], columns: tuple[str, ...]) -> Iterator[tuple[_Indices, _Indices]]:
    """Rows and columns of each name that both lists have; most pairs of layers share none."""
    first, second = np.array(rows), np.array(columns)
    for name in dict.fromkeys(rows):
        if name in columns:
            yield np.flatnonzero(first == name), np.flatnonzero(second == name)


def _part(features: Features, layers: _Indices) -> Features:
    return Features(tuple(features.kinds[i] for i in layers), features.numbers[layers])


def _squares(rows: Features, columns: Features, scales: tuple[float, ...]) -> FloatArray:
    """Squared distances between layers, in units of the scales."""
    first, second = rows.numbers / np.array(scales), columns.numbers / np.array(scales)
    squares = (first**2).sum(1)[:, None] + (second**2).sum(1)[None, :]
    return np.asarray(np.maximum(squares - 2 * first @ second.T, 0.0))
