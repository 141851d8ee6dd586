"""The kernel: how much the errors of the baseline have in common, from layer to layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.features import NAMES, Features


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

    def __post_init__(self) -> None:
        if not len(self.smooth_scales) == len(self.rough_scales) == len(NAMES):
            raise ValueError(f"a kernel has {len(NAMES)} scales of each sort")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The kernel of plain data, as :func:`dataclasses.asdict` gives them."""
        scales = {name: tuple(data[name]) for name in ("smooth_scales", "rough_scales")}
        return cls(**{**data, **scales})

    def covariance(self, rows: Features, columns: Features) -> FloatArray:
        """Covariance of each layer of one list with each layer of another.

        Returns:
            Array of shape (layers of ``rows``, layers of ``columns``).
        """
        same_kind = _same(rows.kinds, columns.kinds)
        same_class = _same(_classes(rows), _classes(columns))
        smooth = np.exp(-_squares(rows, columns, self.smooth_scales) / 2)
        distance = np.sqrt(5 * _squares(rows, columns, self.rough_scales))
        rough = (1 + distance + distance**2 / 3) * np.exp(-distance)
        found = self.common + same_class * (self.of_class + self.class_smooth * smooth)
        found += same_kind * (self.of_kind + self.smooth * smooth + self.rough * rough)
        return np.asarray(found)


def _classes(features: Features) -> tuple[str, ...]:
    return tuple(kind.partition("@")[0] for kind in features.kinds)


def _same(rows: tuple[str, ...], columns: tuple[str, ...]) -> FloatArray:
    codes = {name: code for code, name in enumerate(dict.fromkeys((*rows, *columns)))}
    first, second = (np.array([codes[name] for name in each]) for each in (rows, columns))
    return np.asarray(first[:, None] == second[None, :], dtype=np.float64)


def _squares(rows: Features, columns: Features, scales: tuple[float, ...]) -> FloatArray:
    """Squared distances between layers, in units of the scales."""
    first, second = rows.numbers / np.array(scales), columns.numbers / np.array(scales)
    squares = (first**2).sum(1)[:, None] + (second**2).sum(1)[None, :]
    return np.asarray(np.maximum(squares - 2 * first @ second.T, 0.0))
