"""Nearness of systems: how well measurements on one system predict measurements on another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from dlbricks_core import fitted
from dlbricks_core.facts import System
from dlbricks_core.machine.speed import lanes

_LEAST = 0.05
"""Distance between two systems that differ in nothing that counts."""


@dataclass(frozen=True)
class Distances:
    """Distances between processors that differ in one respect.

    Attributes:
        architectures: Of different architectures, beside that of makers.
        makers: Of different makers.
        families: Of different families.
        models: Of different models of one family.
        octave: Whose vectors, or whose caches of the second level, differ by a factor of two. The
            third level is left out, because a virtual machine shares it with all its neighbours.
    """

    architectures: float
    makers: float
    families: float
    models: float
    octave: float


@cache
def distances() -> Distances:
    """The distances that were fitted."""
    return Distances(**fitted.values(__file__, "nearness"))


def distance(one: System, other: System) -> float:
    """Distance between two systems: 0 for the same fingerprint, about 1 for unlike processors."""
    if one.fingerprint == other.fingerprint:
        return 0.0
    apart = distances()
    if one.vendor != other.vendor:
        found = apart.makers + apart.families
    elif one.family != other.family:
        found = apart.families
    else:
        found = apart.models * (one.model != other.model)
    if one.architecture != other.architecture:
        found += apart.architectures
    pairs = [(float(lanes(one)), float(lanes(other))), (_second_level(one), _second_level(other))]
    return _LEAST + found + apart.octave * sum(abs(math.log2(a / b)) for a, b in pairs)


def _second_level(system: System) -> float:
    sizes = [c.size for c in system.caches if c.level == 2 and c.kind != "instruction"]
    return float(max(sizes, default=0) or 2**20)
