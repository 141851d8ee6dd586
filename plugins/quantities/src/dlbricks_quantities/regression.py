"""Regression: predicts any quantity of unmeasured networks from a few features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from dlbricks_prediction.features import NAMES, Features

from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.figures.statistics import FloatArray

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
class Sums:
    """Values as sums over sizes, or as the larger of such a sum and a least value.

    Attributes:
        coefficients: The constant, then the factor of each size: shape (n + 1,).
        least: Factor of each size in the least value, all 0 if there is none: shape (n,).
    """

    coefficients: FloatArray
    least: FloatArray

    def __call__(self, sizes: FloatArray) -> FloatArray:
        """Values of networks, from their sizes: shape (m, n)."""
        return np.maximum(_terms(sizes) @ self.coefficients, sizes @ self.least)


@dataclass(frozen=True)
class Regression:
    """Regression with non-negative coefficients: a constant, and a factor of each feature.

    It minimizes the squares of relative errors. Its uncertainty is the error on families of models
    that were left out of the fit; the logarithms have one degree of freedom less than there are
    families.

    Attributes:
        sums: The fitted sums.
        spread: Standard deviation of the logarithm of a prediction's error.
        freedom: Degrees of freedom of that standard deviation.
        floor: Value below which errors are not relative.
        largest: Largest size of a training network: shape (n,).
    """

    sums: Sums
    spread: float
    freedom: int
    floor: float
    largest: FloatArray

    @classmethod
    def fitted(
        cls,
        sizes: FloatArray,
        values: FloatArray,
        families: Sequence[str],
        least: Sequence[int] = (),
    ) -> Regression | None:
        """Regression on observed networks; ``None`` if they are too few.

        Args:
            sizes: Sizes of each network, such as :func:`size_of` gives: shape (m, n).
            values: Value of each network without the overhead: shape (m,).
            families: Family of models that each network comes from.
            least: Positions of sizes. The least value is a multiple of their sum. Without
                positions, there is no least value.
        """
        folds = sorted(set(families))
        if len(values) < FEWEST or len(folds) < FEWEST_FAMILIES:
            return None
        floor = max(_FLOOR * float(values.mean()), 1e-9)
        own = np.array(families)
        positions = list(least)
        errors = np.concatenate(
            [
                np.log(values[own == fold] + floor)
                - np.log(
                    _fitted(sizes[own != fold], values[own != fold], floor, positions)(
                        sizes[own == fold]
                    )
                    + floor
                )
                for fold in folds
            ]
        )
        return cls(
            _fitted(sizes, values, floor, positions),
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
        expected = float(self.sums(size[np.newaxis])[0])
        drawn = np.random.default_rng(0).standard_t(self.freedom, RESAMPLES)
        off = np.exp(np.clip(self.spread * drawn, -_MOST_LOG, _MOST_LOG))
        draws = np.maximum((expected + self.floor) * off - self.floor, 0.0)
        return Predicted(overhead + expected, overhead + draws, overhead)


_MOST_LOG = 20.0
"""Maximum logarithm of an error; beyond it, a value is equally unknown."""


def _terms(sizes: FloatArray) -> FloatArray:
    return np.hstack([np.ones((len(sizes), 1)), sizes])


def _scaled(terms: FloatArray, values: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Terms for relative errors, with all columns scaled to one magnitude, and the scales."""
    weighted = terms / (values + floor)[:, np.newaxis]
    scale = np.maximum(np.linalg.norm(weighted, axis=0), 1e-300)
    return weighted / scale, scale


def _fitted(sizes: FloatArray, values: FloatArray, floor: float, positions: Sequence[int]) -> Sums:
    """The model with the smallest relative errors: a sum, or the larger of a sum and a least value.

    The least value is a local optimum. Its search begins at the sum alone, and at the largest least
    value that no observed value is below.
    """
    # Imported here, because the import would delay the start of every command by a third.
    from scipy.optimize import least_squares, nnls

    own, scale = _scaled(_terms(sizes), values, floor)
    wanted = values / (values + floor)
    alone, _ = nnls(own, wanted)
    factors = np.zeros(sizes.shape[1])
    summed = sizes[:, positions].sum(axis=1)
    if not summed.any():
        return Sums(np.asarray(alone / scale), factors)
    other, unit = _scaled(summed[:, np.newaxis], values, floor)

    def errors(both: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(own @ both[:-1], other @ both[-1:]) - wanted)

    def slopes(both: FloatArray) -> FloatArray:
        summing = (own @ both[:-1] >= other @ both[-1:])[:, np.newaxis]
        return np.hstack([np.where(summing, own, 0.0), np.where(summing, 0.0, other)])

    below = np.min(values[summed > 0] / summed[summed > 0])
    both = least_squares(errors, [*alone, below * unit[0]], slopes, bounds=(0.0, np.inf)).x
    factors[positions] = both[-1] / unit[0]
    return Sums(both[:-1] / scale, factors)
