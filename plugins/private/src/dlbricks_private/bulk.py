"""Bulk of layer sequences: bytes of their weights and operations, and how much a decoy may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from dlbricks_core.analysis import layer_flops
from dlbricks_core.ir import CanonicalModel

MOST = 2
"""Maximum bulk of a decoy, relative to the largest sequence of the model that it hides.

With 1, no decoy would exceed the model's largest sequence, and the largest of a suite would be
true.
"""


@dataclass(frozen=True)
class Bulk:
    """Bytes of weights and operations, of one layer sequence or as a limit."""

    weight_bytes: int  #: Bytes that the weights take.
    operations: int  #: Floating-point operations. Operators without a rule count as none.

    @classmethod
    def of(cls, model: CanonicalModel) -> Self:
        """Bulk of a layer sequence."""
        counts = (layer_flops(model, layer) for layer in model.layers)
        return cls(model.weight_bytes, sum(filter(None, counts)))

    @classmethod
    def limit(cls, own: Iterable[CanonicalModel]) -> Self:
        """Maximum bulk of decoys for a model, from all of its sequences.

        It does not depend on the sequence that a decoy stands beside: otherwise the decoys at each
        pair of ends would reveal the bulk of the true brick there.
        """
        found = [cls.of(each) for each in own]
        return cls(
            MOST * max((each.weight_bytes for each in found), default=0),
            MOST * max((each.operations for each in found), default=0),
        )

    def holds(self, model: CanonicalModel) -> bool:
        """Whether a sequence is within this limit."""
        if model.weight_bytes > self.weight_bytes:
            return False
        return Bulk.of(model).operations <= self.operations
