"""Subjects of the dial: bricks and whole models that could be timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Question
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.dial.precisions import FINEST
from dlbricks_core.workflows.measuring import Target
from dlbricks_core.workflows.request import Request


@dataclass(frozen=True)
class Subjects:
    """What could be timed.

    Attributes:
        cutting: The models and their bricks.
        request: How to measure.
        bricks: Bricks, by signature.
        wholes: Whole models that may be timed in place of their bricks, by signature.
        kept_apart: Signatures of whole models for comparison, which estimates must not rest on.
    """

    cutting: Cutting
    request: Request
    bricks: Mapping[str, Brick]
    wholes: Mapping[str, Brick]
    kept_apart: frozenset[str]

    @classmethod
    def of(cls, cutting: Cutting, request: Request, *, end_to_end: bool) -> Self:
        """Everything but opaque layers, models that hold some, and models that do not fit."""
        every = cutting.brickset.bricks
        bricks = {signature: each for signature, each in every.items() if not each.opaque}
        wholes = {
            cut.whole.signature: cut.whole
            for cut in cutting.brickset.models
            if cut.counts.keys() <= bricks.keys() and cut.whole.signature not in bricks
        }
        if end_to_end:
            return cls(cutting, request, bricks, {}, frozenset(wholes))
        large = {s for s, footprint in cutting.footprints.items() if not footprint.fits}
        able = {s: whole for s, whole in wholes.items() if s not in large}
        return cls(cutting, request, bricks, able, frozenset())

    @property
    def precision(self) -> float:
        """Half-width of all models' intervals to reach, relative to their latencies."""
        return self.request.precision or FINEST

    @property
    def every(self) -> Mapping[str, Brick]:
        """Bricks and whole models."""
        return {**self.bricks, **self.wholes}

    def target(self, signature: str) -> Target:
        """A network as what it is timed as."""
        if signature in self.bricks:
            return Target(self.bricks[signature], "brick")
        return Target(self.wholes[signature], "model")

    def key(self, signature: str) -> Question:
        """Question that the samples of a network answer."""
        return self.request.key(signature, self.target(signature).kind)
