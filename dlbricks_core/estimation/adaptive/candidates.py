"""Candidates of adaptive measuring: bricks and whole models that could be timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Self

from dlbricks_core.bricks import Brick
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.targets import Target, alike_together


@dataclass(frozen=True)
class Candidates:
    """Networks that could be timed.

    Attributes:
        cutting: The models and their bricks.
        bricks: Bricks by signature.
        wholes: Whole models that may be timed instead of their bricks, by signature.
        kept_apart: Signatures of whole models for comparison, which estimates must not use.
        probes: Networks of the survey that may be timed to characterize the system, by signature.
    """

    cutting: Cutting
    bricks: Mapping[str, Brick]
    wholes: Mapping[str, Brick]
    kept_apart: frozenset[str]
    probes: Mapping[str, Target] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        cutting: Cutting,
        *,
        end_to_end: bool,
        probes: Mapping[str, Target] = MappingProxyType({}),
    ) -> Self:
        """All networks except opaque layers, models with opaque layers, and models of much memory.

        Args:
            cutting: The models and their bricks.
            end_to_end: Whether whole models are for comparison.
            probes: Networks of the survey, by signature.
        """
        every = cutting.brickset.bricks
        bricks = {signature: each for signature, each in every.items() if not each.opaque}
        wholes = {
            cut.whole.signature: cut.whole
            for cut in cutting.brickset.models
            if cut.counts.keys() <= bricks.keys() and cut.whole.signature not in bricks
        }
        others = {s: each for s, each in probes.items() if s not in bricks and s not in wholes}
        if end_to_end:
            return cls(cutting, bricks, {}, frozenset(wholes), others)
        large = {s for s, footprint in cutting.footprints.items() if not footprint.is_modest}
        able = {s: whole for s, whole in wholes.items() if s not in large}
        return cls(cutting, bricks, able, frozenset(), others)

    @cached_property
    def every(self) -> Mapping[str, Brick]:
        """Each model followed by its bricks in execution order, then the probes."""
        able = {**self.bricks, **self.wholes}
        found: dict[str, Brick] = {}
        for cut in self.cutting.brickset.models:
            found |= {s: able[s] for s in (cut.whole.signature, *cut.counts) if s in able}
        probes = alike_together(self.probes.values())
        return {**found, **able, **{each.brick.signature: each.brick for each in probes}}

    def target(self, signature: str) -> Target:
        """A network with the role in which it is timed."""
        if signature in self.bricks:
            return Target(self.bricks[signature], "brick")
        if signature in self.probes:
            return self.probes[signature]
        return Target(self.wholes[signature], "model")
