"""Families that join the others once enough networks of these are drawn.

They cover further operators of speech, video, language, recommendation and image generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

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
)

_HEADS = (2, 3, 4, 6, 8, 12, 16)
_HEAD_WIDTHS = (32, 48, 64, 80, 128)
_LENGTHS = (100, 256, 400, 512, 1000, 1500, 3000, 8000, 16000)
"""Steps of a signal: frames of a spectrogram, or samples of a sound."""


def _map(draft: Draft, random: Random, channels: int, most: int = 22) -> str:
    """An image, or a convolution's result."""
    return draft.input(1, channels, *(pick(random, MAPS[:most]),) * 2)


def _activations(random: Random) -> tuple[int, ...]:
    """Shape of a map or of tokens."""
    if random.random() < 0.5:
        return (1, pick(random, CHANNELS), *(pick(random, MAPS[:22]),) * 2)
    return (1, pick(random, TOKENS), pick(random, WIDTHS))


def _projected(draft: Draft, x: str, read: int, written: int, *, bias: bool = True) -> str:
    """A product of tokens with a weight."""
    y = draft.add("MatMul", x, draft.weight(read, written))
    return draft.add("Add", y, draft.weight(written)) if bias else y


def _layer_normalized(draft: Draft, x: str, width: int) -> str:
    scales = draft.weight(width), draft.weight(width)
    return draft.add("LayerNormalization", x, *scales, axis=-1)


def function(draft: Draft, random: Random) -> None:
    """A function of each element of one input."""
    op = pick(random, ("Swish", "Swish", "Abs", "Neg", "Softplus", "Elu", "HardSigmoid", "Cos",
                       "Sin", "Log", "Mish", "Reciprocal", "Floor", "Celu"))  # fmt: skip
    draft.add(op, draft.input(*_activations(random)))


def arithmetic(draft: Draft, random: Random) -> None:
    """A function of each element of several inputs, some of which are stretched."""
    shape = _activations(random)
    x = draft.input(*shape)
    kind = pick(random, ("same", "same", "sum", "scalar", "channel", "power", "slope"))
    if kind == "same":
        draft.add(pick(random, ("Sub", "Div", "Max", "Min", "Mul")), x, draft.input(*shape))
    elif kind == "sum":
        draft.add("Sum", x, *(draft.input(*shape) for _ in range(pick(random, (1, 2, 3)))))
    elif kind == "scalar":
        draft.add(pick(random, ("Mul", "Div", "Add", "Sub")), x, draft.number(1.5))
    elif kind == "power":
        draft.add("Pow", x, draft.number(pick(random, (2.0, 3.0, 0.5))))
    else:
        # One number for each channel of a map, or for each column of tokens.
        sizes = (shape[1], 1, 1) if len(shape) == 4 else (shape[-1],)
        op = "PRelu" if kind == "slope" else pick(random, ("Mul", "Add", "Sub"))
        draft.add(op, x, draft.weight(*sizes))


def reduction(draft: Draft, random: Random) -> None:
    """A sum, a maximum or its place, or a running sum, along one axis."""
    shape = _activations(random)
    x, axis = draft.input(*shape), pick(random, (1, len(shape) - 1))
    op = pick(random, ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ArgMax", "CumSum"))
    if op == "ArgMax":
        draft.add(op, x, axis=axis, keepdims=0)
    elif op == "CumSum":
        draft.add(op, x, draft.integer(axis))
    else:
        draft.add(op, x, draft.integers(axis), keepdims=pick(random, (0, 1)))


def head(draft: Draft, random: Random) -> None:
    """The end of a classifier: the mean of each map, and a fully connected layer."""
    channels, classes = pick(random, CHANNELS[10:]), pick(random, (2, 10, 100, 365, 1000))
    side = pick(random, (4, 6, 7, 8, 10, 12))
    y = draft.add("GlobalAveragePool", draft.input(1, channels, side, side))
    y = draft.add("Flatten", y, axis=1)
    y = draft.add("Gemm", y, draft.weight(classes, channels), draft.weight(classes), transB=1)
    if random.random() < 0.3:
        draft.add("Softmax", y, axis=-1)


def tower(draft: Draft, random: Random) -> None:
    """Fully connected layers, one after another, as in models that recommend."""
    widths = [pick(random, (13, 32, 64, 128, 256, 512, 1024, 2048)) for _ in range(4)]
    y = draft.input(pick(random, (1, 1, 16, 64, 128)), widths[0])
    for read, written in pairwise(widths):
        y = draft.add("Gemm", y, draft.weight(written, read), draft.weight(written), transB=1)
        y = draft.add("Relu", y)


def interaction(draft: Draft, random: Random) -> None:
    """Products of all pairs of embeddings."""
    number, width = pick(random, (8, 16, 27, 40)), pick(random, (8, 16, 32, 64, 128))
    x = draft.input(pick(random, (1, 16, 64, 128)), number, width)
    draft.add("MatMul", x, draft.add("Transpose", x, perm=(0, 2, 1)))


def signal(draft: Draft, random: Random) -> None:
    """A convolution over time."""
    read, written = pick(random, (1, 40, 80, *CHANNELS[6:20])), pick(random, CHANNELS[6:20])
    size, dilation = pick(random, (1, 3, 3, 5, 7, 10)), pick(random, (1, 1, 1, 2, 4))
    group = read if read == written and random.random() < 0.5 else 1
    pad = dilation * (size // 2)
    y = draft.add(
        "Conv",
        draft.input(1, read, pick(random, _LENGTHS)),
        draft.weight(written, read // group, size),
        draft.weight(written),
        kernel_shape=(size,),
        strides=(pick(random, (1, 1, 1, 2, 5)),),
        pads=(pad, pad),
        dilations=(dilation,),
        group=group,
    )
    if random.random() < 0.6:
        activation(draft, random, y)


def volume(draft: Draft, random: Random) -> None:
    """A convolution over video or over a body."""
    read, written = pick(random, (1, 3, 8, 16, 32, 64)), pick(random, (8, 16, 32, 64, 128))
    size = pick(random, ((3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1), (1, 1, 1)))
    pads = tuple(each // 2 for each in size)
    side = pick(random, (7, 14, 16, 28, 32, 56))
    y = draft.add(
        "Conv",
        draft.input(1, read, pick(random, (4, 8, 16, 32)), side, side),
        draft.weight(written, read, *size),
        draft.weight(written),
        kernel_shape=size,
        strides=(pick(random, (1, 1, 2)),) * 3,
        pads=(*pads, *pads),
        dilations=(1, 1, 1),
        group=1,
    )
    if random.random() < 0.6:
        draft.add("Relu", y)


def dense(draft: Draft, random: Random) -> None:
    """A layer of a network in which each layer reads all before it."""
    read, growth = pick(random, CHANNELS[6:26]), pick(random, (12, 24, 32, 48))
    x = _map(draft, random, read, 20)
    y = draft.add("Relu", normalized(draft, x, read))
    y = convolve(draft, y, (read, 4 * growth), (1, 1))
    y = draft.add("Relu", normalized(draft, y, 4 * growth))
    draft.add("Concat", x, convolve(draft, y, (4 * growth, growth)), axis=1)


def branches(draft: Draft, random: Random) -> None:
    """Convolutions of several sizes side by side."""
    read = pick(random, CHANNELS[9:22])
    x = _map(draft, random, read, 18)
    found = []
    for size in (1, 3, 5)[: pick(random, (2, 3, 3))]:
        narrow, written = pick(random, CHANNELS[1:12]), pick(random, CHANNELS[3:16])
        y = x if size == 1 else draft.add("Relu", convolve(draft, x, (read, narrow), (1, 1)))
        y = convolve(draft, y, (read if size == 1 else narrow, written), (size, size), bias=True)
        found.append(draft.add("Relu", y))
    pooled = draft.add("MaxPool", x, kernel_shape=(3, 3), strides=(1, 1), pads=(1,) * 4)
    found.append(convolve(draft, pooled, (read, pick(random, CHANNELS[3:10])), (1, 1), bias=True))
    draft.add("Concat", *found, axis=1)


def pyramid(draft: Draft, random: Random) -> None:
    """A small map is enlarged and joined with a larger one."""
    channels, read = pick(random, (32, 64, 96, 128, 256)), pick(random, CHANNELS[6:24])
    side = pick(random, MAPS[:17])
    small = draft.input(1, channels, side, side)
    large = draft.input(1, read, 2 * side, 2 * side)
    sizes = draft.integers(1, channels, 2 * side, 2 * side)
    y = draft.add("Resize", small, "", "", sizes, mode=pick(random, ("nearest", "linear")))
    if random.random() < 0.5:
        y = draft.add("Add", y, convolve(draft, large, (read, channels), (1, 1), bias=True))
        convolve(draft, y, (channels, channels), bias=True)
    else:
        y = draft.add("Concat", y, large, axis=1)
        draft.add("Relu", convolve(draft, y, (channels + read, channels), bias=True))


def diffusion(draft: Draft, random: Random) -> None:
    """Half of a residual block of image generation: group normalization, Swish, convolution."""
    read, written = (pick(random, (64, 128, 192, 256, 320, 512, 640)) for _ in range(2))
    y = draft.add("GroupNormalization", _map(draft, random, read, 18), draft.weight(read),
                  draft.weight(read), num_groups=32)  # fmt: skip
    convolve(draft, draft.add("Swish", y), (read, written), bias=True)


def wide_depthwise(draft: Draft, random: Random) -> None:
    """A block of a modern convolutional network: its products run over channels-last maps."""
    width, side = pick(random, (64, 96, 128, 192, 256, 384, 512, 768)), pick(random, MAPS[:16])
    x = draft.input(1, width, side, side)
    y = convolve(draft, x, (width, width), (7, 7), 1, width, bias=True)
    y = _layer_normalized(draft, draft.add("Transpose", y, perm=(0, 2, 3, 1)), width)
    y = draft.add("Gelu", _projected(draft, y, width, 4 * width))
    y = _projected(draft, y, 4 * width, width)
    draft.add("Add", draft.add("Transpose", y, perm=(0, 3, 1, 2)), x)


def instance(draft: Draft, random: Random) -> None:
    """Instance normalization: each feature map is normalized separately."""
    channels = pick(random, CHANNELS[:20])
    scales = draft.weight(channels), draft.weight(channels)
    y = draft.add("InstanceNormalization", _map(draft, random, channels), *scales)
    if random.random() < 0.5:
        draft.add("Relu", y)


def gated(draft: Draft, random: Random) -> None:
    """The second half of a language model's block, with a gate."""
    tokens, width = pick(random, TOKENS), pick(random, WIDTHS[3:12])
    wide = pick(random, (2, 3, 4)) * width
    x = draft.input(1, tokens, width)
    y = draft.add("RMSNormalization", x, draft.weight(width), axis=-1)
    gate = draft.add("Swish", _projected(draft, y, width, wide, bias=False))
    y = draft.add("Mul", gate, _projected(draft, y, width, wide, bias=False))
    draft.add("Add", _projected(draft, y, wide, width, bias=False), x)


def self_attention(draft: Draft, random: Random) -> None:
    """The first half of a transformer's block, with its projections."""
    tokens, heads = pick(random, TOKENS[3:14]), pick(random, _HEADS[:6])
    each = pick(random, (32, 48, 64))
    width = heads * each
    x = draft.input(1, tokens, width)
    y = _layer_normalized(draft, x, width)
    query, key, value = (
        _heads(draft, _projected(draft, y, width, width), tokens, heads, each, (0, 2, 1, 3))
        for _ in range(3)
    )
    if random.random() < 0.5:
        y = draft.add("Attention", query, key, value)
    else:
        y = draft.add("MatMul", query, draft.add("Transpose", key, perm=(0, 1, 3, 2)))
        y = draft.add("Softmax", draft.add("Mul", y, draft.number(each**-0.5)), axis=-1)
        y = draft.add("MatMul", y, value)
    y = draft.add("Transpose", y, perm=(0, 2, 1, 3))
    y = draft.add("Reshape", y, draft.integers(1, tokens, width))
    draft.add("Add", _projected(draft, y, width, width), x)


def _heads(draft: Draft, x: str, tokens: int, heads: int, each: int, perm: tuple[int, ...]) -> str:
    y = draft.add("Reshape", x, draft.integers(1, tokens, heads, each))
    return draft.add("Transpose", y, perm=perm)


def cached_attention(draft: Draft, random: Random) -> None:
    """Attention of few new tokens to many before them, whose heads may be shared."""
    heads, width = pick(random, (4, 8, 12, 16, 32)), pick(random, _HEAD_WIDTHS)
    few, many = pick(random, (1, 1, 1, 4, 16)), pick(random, (64, 128, 256, 512, 1024, 2048))
    shared = heads // pick(random, (1, 2, 4))
    query = draft.input(1, heads, few, width)
    draft.add("Attention", query, *(draft.input(1, shared, many, width) for _ in range(2)))


def rotary(draft: Draft, random: Random) -> None:
    """Positions as rotations of pairs of numbers."""
    heads, tokens = pick(random, _HEADS), pick(random, TOKENS)
    width = pick(random, (32, 64, 80, 128))
    half = width // 2
    x = draft.input(1, heads, tokens, width)
    ends = draft.integers(half), draft.integers(width), draft.integers(0)
    axis = draft.integers(3)
    first = draft.add("Slice", x, ends[2], ends[0], axis)
    second = draft.add("Neg", draft.add("Slice", x, ends[0], ends[1], axis))
    turned = draft.add("Concat", second, first, axis=-1)
    cosines, sines = (draft.input(1, 1, tokens, width) for _ in range(2))
    draft.add("Add", draft.add("Mul", x, cosines), draft.add("Mul", turned, sines))


def embedding(draft: Draft, random: Random) -> None:
    """Words and their places as numbers."""
    tokens, width = pick(random, TOKENS[2:]), pick(random, WIDTHS[3:12])
    words = draft.weight(pick(random, (1000, 8000, 30000)), width)
    y = draft.add("Gather", words, draft.input(1, tokens, dtype="int64"), axis=0)
    _layer_normalized(draft, draft.add("Add", y, draft.weight(tokens, width)), width)


def pixels(draft: Draft, random: Random) -> None:
    """Maps of other sizes: channels become pixels or the reverse, every second one, enlarged."""
    channels, side = 4 * pick(random, CHANNELS[:16]), 2 * pick(random, MAPS[:14])
    x = draft.input(1, channels, side, side)
    op = pick(random, ("DepthToSpace", "SpaceToDepth", "Slice", "Resize", "Resize"))
    if op == "Slice":
        every_second = (draft.integers(each) for each in (0, side, 2, 2))
        draft.add(op, x, *every_second)
    elif op == "Resize":
        sizes = draft.integers(1, channels, 3 * side // 2, 3 * side // 2)
        draft.add(op, x, "", "", sizes, mode=pick(random, ("linear", "cubic")))
    else:
        draft.add(op, x, blocksize=2)


def stretched(draft: Draft, random: Random) -> None:
    """Networks that expand, repeat, select or convert data."""
    shape = _activations(random)
    op = pick(random, ("Expand", "Tile", "Where", "Cast"))
    if op == "Expand":
        ones = (1,) * (len(shape) - 2)
        draft.add(op, draft.input(*shape[:2], *ones), draft.integers(*shape))
    elif op == "Tile":
        repeats = draft.integers(*(1,) * (len(shape) - 1), 2)
        draft.add(op, draft.input(*shape), repeats)
    elif op == "Where":
        mask = draft.input(*shape, dtype="bool")
        draft.add(op, mask, draft.input(*shape), draft.number(-10000.0))
    else:
        draft.add(op, draft.input(*shape, dtype="int64"), to=1)


def rolled(draft: Draft, random: Random) -> None:
    """A map of which one end moves to the other, as between shifted windows."""
    side = pick(random, (14, 28, 56, 64))
    x = draft.input(1, side, side, pick(random, (96, 128, 192, 384)))
    begin, middle, end, axis = (draft.integers(each) for each in (0, side // 8, side, 1))
    first = draft.add("Slice", x, begin, middle, axis)
    draft.add("Concat", draft.add("Slice", x, middle, end, axis), first, axis=1)


def first_axis(draft: Draft, random: Random) -> None:
    """An axis of size 1 that goes or comes, and a transposition."""
    tokens, width = pick(random, TOKENS[3:]), pick(random, WIDTHS)
    if random.random() < 0.5:
        y = draft.add("Squeeze", draft.input(1, tokens, width), draft.integers(0))
        draft.add("Transpose", y, perm=(1, 0))
    else:
        y = draft.add("Transpose", draft.input(tokens, width), perm=(1, 0))
        draft.add("Unsqueeze", y, draft.integers(0))


FURTHER: Mapping[Family, int] = {
    function: 3,
    arithmetic: 6,
    reduction: 3,
    head: 2,
    tower: 2,
    interaction: 1,
    signal: 6,
    volume: 3,
    dense: 3,
    branches: 3,
    pyramid: 3,
    diffusion: 2,
    wide_depthwise: 2,
    instance: 2,
    gated: 3,
    self_attention: 4,
    cached_attention: 3,
    rotary: 2,
    embedding: 2,
    pixels: 3,
    stretched: 3,
    rolled: 1,
    first_axis: 1,
}
"""Families, and how many networks of each are drawn for about a hundred of the others."""
