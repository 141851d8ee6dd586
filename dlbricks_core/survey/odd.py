"""Families of convolutions whose groups fill no vector, which join when all others are drawn.

Frameworks have fast code for groups of as many channels as a vector holds, and may run others
several times slower, with a group at a time or a channel at a time. Layers that read their result
may be slow, too, because of its layout in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.survey.draft import Draft, Random, pick
from dlbricks_core.survey.families import (
    MAPS,
    Family,
    activation,
    convolve,
    normalized,
    pooled,
)

_WIDTHS = (3, 6, 10, 12, 18, 20, 28, 36, 52, 58, 100)
"""Channels of a group."""


def odd_groups(draft: Draft, random: Random) -> None:
    """A convolution in few groups, as wide as it reads or not."""
    group = pick(random, (2, 3, 4, 8))
    read = group * pick(random, _WIDTHS)
    written = read if random.random() < 0.6 else group * pick(random, _WIDTHS)
    x = draft.input(1, read, *(pick(random, MAPS[:22]),) * 2)
    size = pick(random, (1, 1, 3))
    y = convolve(draft, x, (read, written), (size, size), pick(random, (1, 1, 2)), group)
    if random.random() < 0.7:
        activation(draft, random, normalized(draft, y, written))


_FOURS = (4, 12, 20, 28, 36, 52, 60, 68, 100)
"""Channels of a group in which blocks of four fit, but none of eight."""


def small_blocks(draft: Draft, random: Random) -> None:
    """A convolution in groups of blocks of four channels, and what reads its result."""
    group, width, side = pick(random, (2, 3, 4, 8)), pick(random, _FOURS), pick(random, MAPS[:22])
    channels = group * width
    x = draft.input(1, channels, side, side)
    size = pick(random, (1, 3))
    y = convolve(draft, x, (channels, channels), (size, size), 1, group)
    if random.random() < 0.5:
        y = normalized(draft, y, channels)
    if random.random() < 0.5:
        y = activation(draft, random, y)
    if random.random() < 0.3:
        y = draft.add("Concat", y, draft.input(1, channels, side, side), axis=1)
        channels *= 2
    if random.random() < 0.5:
        pooled(draft, random, y)
    else:
        normalized(draft, y, channels)


ODD: Mapping[Family, int] = {odd_groups: 20}
BLOCKS: Mapping[Family, int] = {small_blocks: 20}
"""Families, and how many networks of each are drawn for about a hundred of the first ones."""
