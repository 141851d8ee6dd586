"""Regression: predicts any quantity of unmeasured networks from a few features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.figures.figure import RESAMPLES, Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.features import NAMES, Features

FEWEST = 12
"""Minimum number of networks for a regression."""

FEWEST_FAMILIES = 3
"""Minimum number of families of models among them: errors are judged on families that were left
out.
"""

_MOST_BEYOND = 2.0
"""Maximum factor by which a network may exceed all training networks in a feature."""

_FLOOR = 0.02
"""Share of the mean value below which errors are not relative."""

_WEIGHTS, _WRITTEN = NAMES.index("weight_bytes"), NAMES.index("written_bytes")

_ENDS = ("enter:", "leave:")


def size_of(features: Features) -> FloatArray:
    """Bytes of weights, bytes of feature maps and number of layers: array of shape (3,)."""
    rows = [i for i, kind in enumerate(features.kinds) if not kind.startswith(_ENDS)]
    bytes_of = np.exp2(features.numbers[rows]) - 1
    return np.array([bytes_of[:, _WEIGHTS].sum(), bytes_of[:, _WRITTEN].sum(), len(rows)])


@dataclass(frozen=True)
class Regression:
    """Linear regression with non-negative coefficients: a constant, and a factor of each feature.

    It minimizes the squares of relative errors. Its uncertainty is the error on families of models
    that were left out of the fit; the logarithms have one degree of freedom less than there are
    families.

    Attributes:
        coefficients: The constant, then the factor of each feature: shape (4,).
        spread: Standard deviation of the logarithm of a prediction's error.
        freedom: Degrees of freedom of that standard deviation.
        floor: Value below which errors are not relative.
        largest: Largest size of a training network: shape (3,).
    """

    coefficients: FloatArray
    spread: float
    freedom: int
    floor: float
    largest: FloatArray

    @classmethod
    def fitted(
        cls, sizes: FloatArray, values: FloatArray, families: Sequence[str]
    ) -> Regression | None:
        """Regression on observed networks; ``None`` if they are too few.

        Args:
            sizes: Result of :func:`size_of` for each network: shape (n, 3).
            values: Value of each network without the overhead: shape (n,).
            families: Family of models that each network comes from.
        """
        folds = sorted(set(families))
        if len(values) < FEWEST or len(folds) < FEWEST_FAMILIES:
            return None
        floor = max(_FLOOR * float(values.mean()), 1e-9)
        own = np.array(families)
        errors = np.concatenate(
            [
                np.log(values[own == fold] + floor)
                - np.log(
                    _terms(sizes[own == fold])
                    @ _solved(sizes[own != fold], values[own != fold], floor)
                    + floor
                )
                for fold in folds
            ]
        )
        return cls(
            _solved(sizes, values, floor),
            float(np.sqrt(np.mean(errors**2))),
            len(folds) - 1,
            floor,
            sizes.max(axis=0),
        )

    def tells_of(self, size: FloatArray) -> bool:
        """Whether a network is not much larger than all training networks."""
        return bool((size <= _MOST_BEYOND * self.largest).all())

    def predict(self, size: FloatArray, overhead: float) -> Predicted:
        """Figure of a network.

        The i-th draws of all figures are joint: as far as is known, a regression errs in the same
        direction for all bricks of a model.

        Args:
            size: Result of :func:`size_of`.
            overhead: Overhead of observing any network.
        """
        expected = float((_terms(size[np.newaxis]) @ self.coefficients)[0])
        drawn = np.random.default_rng(0).standard_t(self.freedom, RESAMPLES)
        off = np.exp(np.clip(self.spread * drawn, -_MOST_LOG, _MOST_LOG))
        draws = np.maximum((expected + self.floor) * off - self.floor, 0.0)
        return Predicted(overhead + expected, overhead + draws, overhead)


_MOST_LOG = 20.0
"""Maximum logarithm of an error; beyond it, a value is equally unknown."""


def _terms(sizes: FloatArray) -> FloatArray:
    return np.hstack([np.ones((len(sizes), 1)), sizes])


def _solved(sizes: FloatArray, values: FloatArray, floor: float) -> FloatArray:
    """Coefficients that minimize the relative errors.

    Columns are scaled to one magnitude before solving.
    """
    # Imported here, because the import would delay the start of every command by a third.
    from scipy.optimize import nnls

    weighted = _terms(sizes) / (values + floor)[:, np.newaxis]
    scale = np.maximum(np.linalg.norm(weighted, axis=0), 1e-300)
    solution, _ = nnls(weighted / scale, values / (values + floor))
    return np.asarray(solution / scale)
