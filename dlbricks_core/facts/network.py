"""Features of measured networks, for predictors."""

from __future__ import annotations

from dataclasses import dataclass

_LARGEST = 1e6
"""Largest magnitude of a feature: all of them are logarithms, or small numbers."""


@dataclass(frozen=True, slots=True)
class NetworkFeatures:
    """Features of a network's layers and ends, apart from any measurement.

    Attributes:
        signature: Signature of the brick, or of the whole model.
        version: Version of the meaning of kinds and numbers; only features of one version may be
            mixed.
        kinds: Kind of each layer and end.
        numbers: Numbers of each layer and end: float32, little-endian, as many for each.
        groups: Families of models that the network was cut from, or of surveys that drew it. A
            predictor is judged by groups that it has not seen.
    """

    signature: str
    version: str
    kinds: tuple[str, ...]
    numbers: bytes
    groups: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(self.numbers) % (4 * max(len(self.kinds), 1)):
            raise ValueError(f"{len(self.numbers)} bytes for {len(self.kinds)} layers")
        check_numbers(self.numbers)


def check_numbers(numbers: bytes) -> None:
    """Refuses features with which no predictor could compute.

    Args:
        numbers: Numbers as :class:`NetworkFeatures` has them.

    Raises:
        ValueError: If one is not finite, or too large.
    """
    import numpy as np  # not at the top: most that imports facts computes nothing

    # Both comparisons are false for NaN.
    found = np.frombuffer(numbers, dtype="<f4")
    if not ((found <= _LARGEST) & (found >= -_LARGEST)).all():
        raise ValueError("a feature is not finite, or too large")
