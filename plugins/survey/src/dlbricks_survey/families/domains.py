"""Families for networks of further domains, which join after the most usual ones.

Restoration ends with a few channels, segmentation with a softmax over channels, bodies and videos
have three spatial axes, proteins and graphs have sums over named axes and rows at given places.
Frameworks have kernels of their own for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_prediction.survey.families import (
    CHANNELS,
    MAPS,
    TOKENS,
    WIDTHS,
    Draft,
    Family,
    Random,
    activation,
    convolve,
    normalized,
    pick,
    pooled,
)

# Families of convolutions with functions after them, which join when all others are drawn.
#
# Frameworks fuse a rectifier into the convolution before it, and other functions or not. Mobile
# networks have little but such pairs.

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


# Families of convolutions whose groups fill no vector, which join when all others are drawn.
#
# Frameworks have fast code for groups of as many channels as a vector holds, and may run others
# several times slower, with a group at a time or a channel at a time. Layers that read their
# result may be slow, too, because of its layout in memory.

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


_FEW = (1, 2, 3, 3, 3, 4, 6)
"""Channels of images, masks, flows and sounds."""

_MODES = ("nearest", "linear", "linear", "cubic")


def few_channels(draft: Draft, random: Random) -> None:
    """The last convolution of a network that writes an image, a mask or a sound."""
    read, written = pick(random, (16, 24, 32, 48, 64, 96, 128)), pick(random, _FEW)
    kind = pick(random, ("map", "map", "map", "sound", "transposed"))
    if kind == "sound":
        size = pick(random, (1, 3, 7, 16))
        x = draft.input(1, read, pick(random, (400, 1000, 4000, 16000)))
        y = draft.add("Conv", x, draft.weight(written, read, size), draft.weight(written),
                      kernel_shape=(size,), strides=(1,), pads=(size // 2, (size - 1) // 2),
                      dilations=(1,), group=1)  # fmt: skip
    elif kind == "transposed":
        size = pick(random, (2, 4, 9))
        x = draft.input(1, read, *(pick(random, MAPS[6:24]),) * 2)
        y = draft.add("ConvTranspose", x, draft.weight(read, written, size, size),
                      draft.weight(written), kernel_shape=(size, size), strides=(2, 2))  # fmt: skip
    else:
        x = draft.input(1, read, *(pick(random, (*MAPS[8:], 320, 384, 512)),) * 2)
        size = pick(random, (1, 3, 3, 5, 9))
        y = convolve(draft, x, (read, written), (size, size), bias=True)
    if random.random() < 0.4:
        draft.add(pick(random, ("Tanh", "Sigmoid")), y)


def inner_softmax(draft: Draft, random: Random) -> None:
    """A softmax over the channels of a map, or over another axis that is not the last."""
    kind = pick(random, ("map", "map", "heads", "tokens"))
    if kind == "map":
        classes = pick(random, (2, 3, 5, 9, 19, 21, 64, 150))
        x, axis = draft.input(1, classes, *(pick(random, MAPS[6:]),) * 2), 1
    elif kind == "heads":
        heads, tokens = pick(random, (2, 4, 8, 16)), pick(random, TOKENS[4:14])
        x, axis = draft.input(1, heads, tokens, tokens), pick(random, (1, 2))
    else:
        x, axis = draft.input(1, pick(random, TOKENS[2:]), pick(random, WIDTHS[:10])), 1
    draft.add(pick(random, ("Softmax", "Softmax", "LogSoftmax")), x, axis=axis)


def body(draft: Draft, random: Random) -> None:
    """A convolution of three spatial axes that enlarges its input, or is cheap for its size."""
    side, deep = pick(random, (8, 12, 16, 24, 32, 48)), pick(random, (4, 8, 16, 24, 32))
    channels = pick(random, (4, 8, 16, 24, 32, 48, 64))
    shape = (1, channels, deep, side, side)
    x, kind = draft.input(*shape), pick(random, ("dense", "few", "depthwise", "transposed"))
    if kind == "transposed":
        written = pick(random, (2, 8, 16, 32))
        draft.add("ConvTranspose", x, draft.weight(channels, written, 2, 2, 2),
                  draft.weight(written), kernel_shape=(2,) * 3, strides=(2,) * 3)  # fmt: skip
        return
    group = channels if kind == "depthwise" else 1
    written = channels if group > 1 else pick(random, _FEW if kind == "few" else (8, 16, 32, 64))
    size = pick(random, ((3, 3, 3), (3, 3, 3), (1, 1, 1), (1, 3, 3)))
    pads = tuple(each // 2 for each in size)
    draft.add("Conv", x, draft.weight(written, channels // group, *size), draft.weight(written),
              kernel_shape=size, strides=(1,) * 3, pads=(*pads, *pads), dilations=(1,) * 3,
              group=group)  # fmt: skip


def body_pool(draft: Draft, random: Random) -> None:
    """Pooling over windows of three axes."""
    side, channels = pick(random, (8, 12, 16, 24, 32, 56)), pick(random, (4, 8, 16, 32, 64))
    x = draft.input(1, channels, pick(random, (4, 8, 16, 32)), side, side)
    size = pick(random, ((2, 2, 2), (2, 2, 2), (1, 2, 2), (3, 3, 3)))
    pads = tuple(each // 3 for each in size)
    strides = tuple(min(each, 2) for each in size)
    draft.add(pick(random, ("MaxPool", "MaxPool", "AveragePool")), x, kernel_shape=size,
              strides=strides, pads=(*pads, *pads))  # fmt: skip


def resized(draft: Draft, random: Random) -> None:
    """Maps, or images of few channels, of another size in each of the ways."""
    channels = pick(random, (1, 3, 8, 16, 32, 64, 128, 256))
    side, mode = pick(random, MAPS[3:24]), pick(random, _MODES)
    wanted = pick(random, (side // 2, 3 * side // 2, 2 * side, 2 * side, 4 * side))
    if random.random() < 0.15 and channels < 64:
        deep = pick(random, (4, 8, 16))
        x = draft.input(1, channels, deep, min(side, 32), min(side, 32))
        sizes = draft.integers(1, channels, 2 * deep, *(2 * min(side, 32),) * 2)
        draft.add("Resize", x, "", "", sizes, mode=pick(random, ("nearest", "linear")))
        return
    x = draft.input(1, channels, side, side)
    draft.add("Resize", x, "", "", draft.integers(1, channels, wanted, wanted), mode=mode)


def gated_recurrent(draft: Draft, random: Random) -> None:
    """Recurrent layers of each sort, over few or many steps, for one sequence or several."""
    op, gates = pick(random, (("GRU", 3), ("GRU", 3), ("LSTM", 4), ("RNN", 1)))
    steps, batch = pick(random, (10, 30, 60, 120, 250, 400)), pick(random, (1, 1, 1, 8, 32))
    width, hidden = pick(random, (8, 32, 80, 128, 256)), pick(random, (32, 64, 128, 256))
    both = pick(random, (1, 1, 2))
    draft.add(
        op,
        draft.input(steps, batch, width),
        draft.weight(both, gates * hidden, width),
        draft.weight(both, gates * hidden, hidden),
        draft.weight(both, 2 * gates * hidden),
        hidden_size=hidden,
        direction="bidirectional" if both == 2 else "forward",
        **({"linear_before_reset": 1} if op == "GRU" else {}),
    )


def one_slope(draft: Draft, random: Random) -> None:
    """A rectifier with one slope for all channels, alone or after a convolution."""
    channels, side = pick(random, CHANNELS[:18]), pick(random, MAPS[4:26])
    if random.random() < 0.4:
        x = draft.input(1, channels, pick(random, (256, 1000, 2000, 8000)))
    else:
        x = draft.input(1, channels, side, side)
        if random.random() < 0.4:
            x = convolve(draft, x, (channels, channels), bias=True)
    draft.add("PRelu", x, draft.weight(1))


def last_axis(draft: Draft, random: Random) -> None:
    """A reduction along the last axis of long or short rows, or rows that are joined."""
    rows = (pick(random, (1, 4, 16, 64)), pick(random, (20, 64, 256, 1024)))
    width = pick(random, (2, 4, 8, 20, 32, 64, 128, 512, 1024))
    x = draft.input(*rows, width)
    if random.random() < 0.5:
        others = [draft.input(*rows, pick(random, (width, width, 4, 64)))
                  for _ in range(pick(random, (1, 1, 2, 3)))]  # fmt: skip
        draft.add("Concat", x, *others, axis=-1)
        return
    op = pick(random, ("ReduceMax", "ReduceMax", "ReduceSum", "ReduceMean", "ReduceL2"))
    draft.add(op, x, draft.integers(2), keepdims=pick(random, (0, 1)))


def picked(draft: Draft, random: Random) -> None:
    """Rows or elements at given places, along an axis that is not the first."""
    first, second = pick(random, (1, 8, 64, 256)), pick(random, (64, 256, 1024, 4000))
    width, places = pick(random, (1, 4, 16, 64)), pick(random, (16, 100, 351, 1000, 4000))
    kind = pick(random, ("parts", "parts", "last", "elements", "elements"))
    if kind == "parts":
        index = draft.input(places, dtype="int64")
        draft.add("Gather", draft.input(first, second, width), index, axis=1)
    elif kind == "last":
        index = draft.input(places, dtype="int64")
        draft.add("Gather", draft.input(first, second), index, axis=-1)
    else:
        index = draft.input(first, places, width, dtype="int64")
        draft.add("GatherElements", draft.input(first, second, width), index, axis=1)


def named_axes(draft: Draft, random: Random) -> None:
    """Sums of products over named axes: of attention, proteins, spectra, mixtures and graphs."""
    draw = {name: pick(random, sizes) for name, sizes in _AXES.items()}
    one, other, result = pick(random, _SUMS)
    shapes = ([draw[axis] for axis in each] for each in (one, other))
    inputs = [draft.input(*shape) for shape in shapes]
    draft.add("Einsum", *inputs, equation=f"{one},{other}->{result}")


_AXES: Mapping[str, tuple[int, ...]] = {
    "b": (1, 2, 8),
    "h": (2, 4, 8),
    "i": (16, 48, 96, 160),
    "j": (16, 48, 96, 160),
    "k": (16, 32, 96, 128),
    "c": (16, 32, 64, 128),
    "d": (16, 32, 64, 128),
}
"""Sizes of each axis by its name."""

_SUMS = (
    ("bikc", "bjkc", "bijc"), ("bkic", "bkjc", "bijc"), ("bihd", "bjhd", "bhij"),
    ("bhij", "bjhd", "bihd"), ("bhid", "bhjd", "bhij"), ("bcij", "cdij", "bdij"),
    ("bic", "cd", "bid"), ("bkic", "bkjd", "bijcd"), ("bik", "bkj", "bij"), ("bkc", "kcd", "bkd"),
    ("bcij", "jk", "bcik"), ("bicd", "id", "bic"),
)  # fmt: skip
"""Axes of both operands and of the result."""

DOMAINS: Mapping[Family, int] = {
    few_channels: 6,
    inner_softmax: 4,
    body: 5,
    body_pool: 3,
    resized: 6,
    gated_recurrent: 5,
    one_slope: 3,
    last_axis: 5,
    picked: 5,
    named_axes: 6,
}
"""Families, and how many networks of each are drawn for about a hundred of the first ones."""
