"""Networks that were measured: what predictors need to know of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NetworkFeatures:
    """Features of a network's layers and ends, apart from any measurement.

    Attributes:
        signature: Signature of the brick, or of the whole model.
        version: What the kinds and numbers are; only features of one version may be mixed.
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
