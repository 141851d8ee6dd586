"""Nearness of systems: how well measurements on one system predict those on another."""

from __future__ import annotations

import math

from dlbricks_core.facts import System
from dlbricks_core.machine.arithmetic import lanes

_VENDOR, _FAMILY, _MODEL = 0.5, 0.7, 0.3
"""Distances between processors of different vendors, families of one vendor, and models of one
family.
"""

_OCTAVE = 0.3
"""Distance between processors whose cache or vector sizes differ by a factor of two."""


def distance(one: System, other: System) -> float:
    """Distance between two systems: 0 for the same fingerprint, about 1 for unlike processors."""
    if one.fingerprint == other.fingerprint:
        return 0.0
    if one.vendor != other.vendor:
        found = _VENDOR + _FAMILY
    elif one.family != other.family:
        found = _FAMILY
    else:
        found = _MODEL * (one.model != other.model)
    pairs = [(float(lanes(one)), float(lanes(other)))]
    pairs += [(_cache(one, level), _cache(other, level)) for level in (2, 3)]
    return 0.05 + found + _OCTAVE * sum(abs(math.log2(a / b)) for a, b in pairs)


def _cache(system: System, level: int) -> float:
    sizes = [c.size for c in system.caches if c.level == level and c.kind != "instruction"]
    return float(max(sizes, default=0) or 2**20)
