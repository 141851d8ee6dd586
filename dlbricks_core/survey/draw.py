"""Draws networks for a survey, always the same for the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dlbricks_core.analysis import Volume
from dlbricks_core.bricks import Brick, extract, signature
from dlbricks_core.survey.draft import Draft
from dlbricks_core.survey.families import FAMILIES

_MOST_FLOPS = 3_000_000_000
_MOST_BYTES = 150_000_000


@dataclass(frozen=True)
class Drawn:
    """A network of a survey.

    Attributes:
        family: Name of the family that it was drawn from.
        brick: The network.
    """

    family: str
    brick: Brick


def draw(seed: int = 0) -> Iterator[Drawn]:
    """Networks without end, each once; a prefix of any length is a fair sample.

    Args:
        seed: Where the sequence begins. Surveys of one seed time the same networks everywhere.
    """
    random = np.random.default_rng(seed)
    families, numbers = list(FAMILIES), np.array(list(FAMILIES.values()), dtype=float)
    seen: set[str] = set()
    while True:
        family = families[int(random.choice(len(families), p=numbers / numbers.sum()))]
        draft = Draft()
        family(draft, random)
        model = draft.model(family.__name__)
        volume = Volume.of(model)
        if volume.flops > _MOST_FLOPS or volume.nbytes > _MOST_BYTES:
            continue
        every = range(len(model.layers))
        identity = signature(model, every)
        if identity not in seen:
            seen.add(identity)
            yield Drawn(family.__name__, Brick(identity, extract(model, every, identity)))
