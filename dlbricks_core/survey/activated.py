"""Families of convolutions with functions after them, which join when all others are drawn.

Frameworks fuse a rectifier into the convolution before it, and other functions or not. Mobile
networks have little but such pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_core.survey.draft import Draft, Random, pick
from dlbricks_core.survey.families import CHANNELS, MAPS, Family, convolve, normalized

Function = Callable[[Draft, str, int], str]
"""Adds a function of each element of a map with so many channels; the name of its result."""


def _clip(low: float, high: float) -> Function:
    return lambda draft, x, _: draft.add("Clip", x, draft.number(low), draft.number(high))


def _plain(op: str) -> Function:
    return lambda draft, x, _: draft.add(op, x)


def _sloped(draft: Draft, x: str, channels: int) -> str:
    """A rectifier with a slope for each channel."""
    return draft.add("PRelu", x, draft.weight(channels, 1, 1))


def _swish(draft: Draft, x: str, _: int) -> str:
    """Swish as frameworks export it."""
    return draft.add("Mul", x, draft.add("Sigmoid", x))


def _hard_swish(draft: Draft, x: str, channels: int) -> str:
    """Its piecewise linear form, as frameworks without an operator for it export it."""
    y = _clip(0.0, 6.0)(draft, draft.add("Add", x, draft.number(3.0)), channels)
    return draft.add("Div", draft.add("Mul", x, y), draft.number(6.0))


_OF_MOBILE: tuple[Function, ...] = (
    *(_clip(0.0, 6.0),) * 3, *(_plain("Swish"),) * 2, _swish, *(_plain("HardSwish"),) * 2,
    _hard_swish,
)  # fmt: skip
"""Activation functions of mobile networks after their convolutions."""

_OF_ALL: tuple[Function, ...] = (
    *_OF_MOBILE, _clip(-1.0, 1.0), _sloped,
    *map(_plain, ("Sigmoid", "Tanh", "HardSigmoid", "LeakyRelu", "Elu", "Gelu", "Mish", "Softplus",
                  "Relu")),
)  # fmt: skip
"""Activation functions of any network after a convolution. The rectifier shows the additional cost
of the others.
"""


def activated(draft: Draft, random: Random) -> None:
    """A dense convolution, with a normalization or a bias, and a function."""
    read, written, side = pick(random, (3, *CHANNELS)), pick(random, CHANNELS), pick(random, MAPS)
    size, stride = pick(random, (1, 1, 1, 3, 3, 5)), pick(random, (1, 1, 1, 2))
    is_normalized = random.random() < 0.6
    x = draft.input(1, read, side, side)
    y = convolve(draft, x, (read, written), (size, size), stride, bias=not is_normalized)
    y = normalized(draft, y, written) if is_normalized else y
    pick(random, _OF_ALL)(draft, y, written)


def depthwise_activated(draft: Draft, random: Random) -> None:
    """A convolution of each channel by itself, and a function."""
    channels, side = pick(random, CHANNELS), pick(random, MAPS)
    size, stride = pick(random, (3, 3, 3, 5, 5, 7)), pick(random, (1, 1, 2))
    is_normalized = random.random() < 0.7
    x = draft.input(1, channels, side, side)
    y = convolve(
        draft, x, (channels, channels), (size, size), stride, channels, bias=not is_normalized
    )
    y = normalized(draft, y, channels) if is_normalized else y
    pick(random, _OF_ALL)(draft, y, channels)


def separable(draft: Draft, random: Random) -> None:
    """A depthwise convolution and a narrow one, each with the same function."""
    read, written = pick(random, CHANNELS[2:26]), pick(random, CHANNELS[2:26])
    function, size = pick(random, _OF_MOBILE), pick(random, (3, 3, 5))
    x = draft.input(1, read, *(pick(random, MAPS[:22]),) * 2)
    y = convolve(draft, x, (read, read), (size, size), pick(random, (1, 1, 2)), read)
    y = function(draft, normalized(draft, y, read), read)
    y = normalized(draft, convolve(draft, y, (read, written), (1, 1)), written)
    function(draft, y, written)


def mobile(draft: Draft, random: Random) -> None:
    """A block of mobile networks, with one function throughout and perhaps weighted channels."""
    narrow = pick(random, (8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 160, 192))
    wide, function = narrow * pick(random, (2, 3, 4, 6)), pick(random, _OF_MOBILE)
    size, stride = pick(random, (3, 3, 5)), pick(random, (1, 1, 2))
    x = draft.input(1, narrow, *(pick(random, MAPS[:20]),) * 2)
    y = normalized(draft, convolve(draft, x, (narrow, wide), (1, 1)), wide)
    y = function(draft, y, wide)
    y = normalized(draft, convolve(draft, y, (wide, wide), (size, size), stride, wide), wide)
    y = function(draft, y, wide)
    if random.random() < 0.5:
        y = _weighted(draft, random, y, wide, function)
    y = normalized(draft, convolve(draft, y, (wide, narrow), (1, 1)), narrow)
    if stride == 1:
        draft.add("Add", y, x)


def _weighted(draft: Draft, random: Random, x: str, channels: int, function: Function) -> str:
    """Channels weighted by a function of their means."""
    few = max(8, channels // pick(random, (4, 16, 24)))
    y = convolve(draft, draft.add("GlobalAveragePool", x), (channels, few), (1, 1), bias=True)
    y = convolve(draft, function(draft, y, few), (few, channels), (1, 1), bias=True)
    return draft.add("Mul", x, draft.add(pick(random, ("Sigmoid", "HardSigmoid")), y))


ACTIVATED: Mapping[Family, int] = {
    activated: 10,
    depthwise_activated: 10,
    separable: 6,
    mobile: 8,
}
"""Families, and how many networks of each are drawn for about a hundred of the first ones."""
