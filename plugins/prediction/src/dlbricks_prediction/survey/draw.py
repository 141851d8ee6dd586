"""Draws networks that characterize a machine, always the same for the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dlbricks_core.analysis import Volume
from dlbricks_core.bricks import Brick, extract, signature
from dlbricks_core.ir import CanonicalModel
from dlbricks_prediction.survey.families import FAMILIES, Draft, Family

_MOST_FLOPS = 3_000_000_000
"""Maximum number of floating-point operations of a network of a survey."""

_MOST_BYTES = 150_000_000
"""Maximum number of bytes that a network of a survey moves."""


@dataclass(frozen=True)
class Drawn:
    """A network of a survey.

    Attributes:
        family: Name of the family that it was drawn from.
        brick: The network.
    """

    family: str
    brick: Brick


def draw(
    seed: int = 0, joining: Mapping[int, Mapping[Family, int]] | None = None
) -> Iterator[Drawn]:
    """Networks without end, each once, in the same order everywhere.

    Args:
        seed: Where the sequence begins.
        joining: Families that join once so many networks are drawn.
    """
    random = np.random.default_rng(seed)
    families = dict(FAMILIES)
    seen: set[str] = set()
    while True:
        families |= (joining or {}).get(len(seen), {})
        family = _family(random, families)
        draft = Draft()
        family(draft, random)
        model = draft.model(family.__name__)
        if not is_quick(model):
            continue
        every = range(len(model.layers))
        identity = signature(model, every)
        if identity not in seen:
            seen.add(identity)
            yield Drawn(family.__name__, Brick(identity, extract(model, every, identity)))


def is_quick(model: CanonicalModel) -> bool:
    """Whether a network is small enough for a survey, which has seconds for hundreds of them."""
    volume = Volume.of(model)
    return volume.flops <= _MOST_FLOPS and volume.nbytes <= _MOST_BYTES


def _family(random: np.random.Generator, families: Mapping[Family, int]) -> Family:
    numbers = np.array(list(families.values()), dtype=float)
    return list(families)[int(random.choice(len(families), p=numbers / numbers.sum()))]
