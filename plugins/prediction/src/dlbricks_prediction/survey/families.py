"""Families of networks: one function each, which draws a network with shapes of real models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlbricks_core.bricks.signature import zero_code
from dlbricks_core.ir import Array, Attribute, CanonicalModel, Layer, RawModel, TensorSpec
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import convert

# Drafts: small networks, written a layer at a time.

_OPSETS = {"": 24, "com.microsoft": 1}
_UNKNOWN = TensorSpec("undefined", None)


@dataclass
class Draft:
    """A small network in the making.

    Methods return the name of a tensor, which further layers read.

    Attributes:
        layers: Layers so far.
        tensors: Specifications of inputs and weights by name.
        inputs: Names of the inputs.
        constants: Values of weights that are small and known.
        dtype: Name of the conversion to another element type; ``None`` for what is written.
    """

    layers: list[Layer] = field(default_factory=list)
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    dtype: str | None = None

    def input(self, *shape: int, dtype: str = "float32") -> str:
        """A further input."""
        name = f"input{len(self.inputs)}"
        self.inputs.append(name)
        self.tensors[name] = TensorSpec(dtype, shape)
        return name

    def weight(self, *shape: int, dtype: str = "float32") -> str:
        """A further weight of unknown values."""
        name = f"weight{len(self.tensors)}"
        self.tensors[name] = TensorSpec(dtype, shape)
        return name

    def integers(self, *values: int) -> str:
        """A further weight: a list of integers."""
        return self._constant(np.array(values, dtype=np.int64))

    def integer(self, value: int) -> str:
        """A further weight: one integer."""
        return self._constant(np.array(value, dtype=np.int64))

    def number(self, value: float) -> str:
        """A further weight: one number."""
        return self._constant(np.array(value, dtype=np.float32))

    def zero_point(self, dtype: str, *, least: bool = False) -> str:
        """A further weight: the code of zero, which is the least one where none is negative."""
        return self._constant(np.array(zero_code(np.dtype(dtype), least=least), dtype=dtype))

    def _constant(self, value: Array) -> str:
        name = f"weight{len(self.tensors)}"
        self.constants[name] = value
        self.tensors[name] = TensorSpec(value.dtype.name, value.shape)
        return name

    def add(self, op: str, *inputs: str, results: int = 1, **attributes: Attribute) -> str:
        """A further layer; the name of its first result.

        An operator that is not ONNX's own has its domain before its name: ``domain:Operator``.
        """
        domain, _, name = op.rpartition(":")
        names = tuple(f"{name.lower()}{len(self.layers)}_{i}" for i in range(results))
        self.layers.append(Layer(name, inputs, names, attributes, domain))
        return names[0]

    def model(self, name: str) -> CanonicalModel:
        """The network in canonical form. Unread tensors are its outputs."""
        read = {each for layer in self.layers for each in layer.inputs}
        made = [each for layer in self.layers for each in layer.outputs]
        outputs = tuple(each for each in made if each not in read)
        raw = RawModel(
            name=name,
            layers=tuple(self.layers),
            inputs=tuple(self.inputs),
            outputs=outputs,
            tensors={**self.tensors, **dict.fromkeys(made, _UNKNOWN)},
            weights=frozenset(self.tensors) - frozenset(self.inputs),
            constants=self.constants,
            opsets=_OPSETS,
        )
        return convert(normalize(raw), self.dtype)


Random = np.random.Generator


def pick(random: Random, choices: Any) -> Any:
    """One of the choices, each equally likely."""
    return choices[int(random.integers(len(choices)))]


Family = Callable[[Draft, Random], None]
"""Adds the layers of a network to a draft."""

CHANNELS = (8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144, 160, 192, 240, 256, 320, 384, 448,
            480, 512, 576, 640, 768, 960, 1024, 1280, 1536, 2048)  # fmt: skip
MAPS = (5, 7, 8, 10, 13, 14, 16, 17, 20, 24, 27, 28, 32, 35, 40, 48, 55, 56, 64, 80, 96, 112, 128,
        149, 160, 192, 224, 256)  # fmt: skip
TOKENS = (1, 4, 8, 16, 32, 49, 50, 64, 77, 100, 128, 196, 197, 256, 384, 512)
WIDTHS = (64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048)


def activation(draft: Draft, random: Random, x: str) -> str:
    """An activation function: mostly the rectifier."""
    op = pick(random, ("Relu",) * 5 + ("Sigmoid", "LeakyRelu", "HardSwish", "Gelu", "Silu"))
    if op == "Silu":
        return draft.add("Mul", x, draft.add("Sigmoid", x))
    return draft.add(op, x)


def convolve(
    draft: Draft,
    x: str,
    channels: tuple[int, int],
    size: tuple[int, int] = (3, 3),
    stride: int = 1,
    group: int = 1,
    dilation: int = 1,
    bias: bool = False,
) -> str:
    """A convolution of a map, which keeps the map's size where the stride is 1.

    Args:
        draft: The network.
        x: Tensor of shape (batch, channels, height, width).
        channels: Numbers of channels that are read and written.
        size: Height and width of the window.
        stride: Step of the window.
        group: Number of groups of channels.
        dilation: Distance of the window's elements.
        bias: Whether a bias is added.
    """
    read, written = channels
    pads = tuple(dilation * (each // 2) for each in size)
    extra = [draft.weight(written)] if bias else []
    return draft.add(
        "Conv",
        x,
        draft.weight(written, read // group, *size),
        *extra,
        kernel_shape=size,
        strides=(stride, stride),
        pads=(*pads, *pads),
        dilations=(dilation, dilation),
        group=group,
    )


def normalized(draft: Draft, x: str, channels: int) -> str:
    """Batch normalization."""
    return draft.add("BatchNormalization", x, *(draft.weight(channels) for _ in range(4)))


def convolution(draft: Draft, random: Random) -> None:
    """A dense convolution, alone or with the layers that follow it in real models."""
    read, written, side = pick(random, (3, *CHANNELS)), pick(random, CHANNELS), pick(random, MAPS)
    size = pick(random, ((1, 1),) * 4 + ((3, 3),) * 5 + ((5, 5), (7, 7), (1, 7), (7, 1), (1, 3),
                         (3, 1), (2, 2), (4, 4)))  # fmt: skip
    stride = pick(random, (1, 1, 1, 2))
    x = draft.input(1, read, side, side)
    kind = pick(random, ("", "b", "br", "r", "bar", "br"))
    y = convolve(draft, x, (read, written), size, stride, bias=kind in ("", "r"),
                  dilation=pick(random, (1,) * 9 + (2,)))  # fmt: skip
    if "b" in kind:
        y = normalized(draft, y, written)
    if "a" in kind and stride == 1 and read == written and size[0] % 2 and size[1] % 2:
        y = draft.add("Add", y, x)
    if "r" in kind:
        activation(draft, random, y)


def depthwise(draft: Draft, random: Random) -> None:
    """A convolution of each channel by itself."""
    channels, side = pick(random, CHANNELS), pick(random, MAPS)
    size = pick(random, (3, 3, 3, 5, 5, 7))
    x = draft.input(1, channels, side, side)
    y = convolve(draft, x, (channels, channels), (size, size), pick(random, (1, 1, 2)), channels)
    if random.random() < 0.7:
        activation(draft, random, normalized(draft, y, channels))


def grouped(draft: Draft, random: Random) -> None:
    """A convolution in groups of channels."""
    group = pick(random, (2, 3, 4, 8, 16, 32))
    channels = group * pick(random, (4, 8, 16, 24, 32, 64))
    x = draft.input(1, channels, *(pick(random, MAPS[:22]),) * 2)
    size = pick(random, (1, 3, 3))
    y = convolve(draft, x, (channels, channels), (size, size), pick(random, (1, 1, 2)), group)
    if random.random() < 0.7:
        activation(draft, random, normalized(draft, y, channels))


def inverted(draft: Draft, random: Random) -> None:
    """A block of mobile networks: a wide depthwise convolution between two narrow ones."""
    narrow = pick(random, (8, 16, 24, 32, 40, 64, 80, 96, 112, 160, 192, 320))
    wide = narrow * pick(random, (1, 3, 4, 6))
    size = pick(random, (3, 3, 5))
    x = draft.input(1, narrow, *(pick(random, MAPS[:20]),) * 2)
    y = activation(draft, random, normalized(draft, convolve(draft, x, (narrow, wide), (1, 1)),
                                              wide))  # fmt: skip
    y = convolve(draft, y, (wide, wide), (size, size), 1, wide)
    y = activation(draft, random, normalized(draft, y, wide))
    if random.random() < 0.3:
        y = _excited(draft, y, wide)
    y = normalized(draft, convolve(draft, y, (wide, narrow), (1, 1)), narrow)
    draft.add("Add", y, x)


def _excited(draft: Draft, x: str, channels: int) -> str:
    """Squeeze and excitation: channels weighted by a function of their means."""
    few = max(8, channels // 4)
    y = convolve(draft, draft.add("GlobalAveragePool", x), (channels, few), (1, 1), bias=True)
    y = convolve(draft, draft.add("Relu", y), (few, channels), (1, 1), bias=True)
    return draft.add("Mul", x, draft.add("Sigmoid", y))


def bottleneck(draft: Draft, random: Random) -> None:
    """A residual block of two or three convolutions."""
    wide = pick(random, (64, 96, 128, 192, 256, 320, 512, 768, 1024))
    x = draft.input(1, wide, *(pick(random, MAPS[:20]),) * 2)
    narrow = wide // pick(random, (1, 2, 4))
    sizes = (3, 3) if narrow == wide else (1, 3, 1)
    y, read = x, wide
    for number, size in enumerate(sizes):
        written = wide if number == len(sizes) - 1 else narrow
        y = normalized(draft, convolve(draft, y, (read, written), (size, size)), written)
        y = draft.add("Relu", y) if number < len(sizes) - 1 else y
        read = written
    draft.add("Relu", draft.add("Add", y, x))


def transposed(draft: Draft, random: Random) -> None:
    """A convolution that enlarges its map."""
    read, written = pick(random, CHANNELS[:22]), pick(random, CHANNELS[:22])
    size = pick(random, (2, 3, 4))
    x = draft.input(1, read, *(pick(random, MAPS[:20]),) * 2)
    draft.add("ConvTranspose", x, draft.weight(read, written, size, size), draft.weight(written),
              kernel_shape=(size, size), strides=(2, 2))  # fmt: skip


def connected(draft: Draft, random: Random) -> None:
    """A fully connected layer on few rows."""
    depth = pick(random, (*WIDTHS, 4096, 9216, 25088))
    x = draft.input(pick(random, (1, 1, 1, 2, 8)), depth)
    columns = pick(random, (10, 100, 1000, *WIDTHS, 4096))
    y = draft.add("Gemm", x, draft.weight(columns, depth), draft.weight(columns), transB=1)
    if random.random() < 0.5:
        activation(draft, random, y)


def projection(draft: Draft, random: Random) -> None:
    """A product of tokens with a weight."""
    tokens, depth = pick(random, TOKENS), pick(random, WIDTHS)
    columns = pick(random, (*WIDTHS, 3072, 4096))
    y = draft.add("MatMul", draft.input(1, tokens, depth), draft.weight(depth, columns))
    if random.random() < 0.7:
        y = draft.add("Add", y, draft.weight(columns))
        if random.random() < 0.4:
            draft.add("Gelu", y)


def perceptron(draft: Draft, random: Random) -> None:
    """The second half of a transformer's block."""
    tokens, width = pick(random, TOKENS), pick(random, WIDTHS[:11])
    wide = width * pick(random, (2, 4))
    x = draft.input(1, tokens, width)
    y = draft.add("LayerNormalization", x, draft.weight(width), draft.weight(width), axis=-1)
    y = draft.add("Add", draft.add("MatMul", y, draft.weight(width, wide)), draft.weight(wide))
    y = draft.add("MatMul", draft.add("Gelu", y), draft.weight(wide, width))
    draft.add("Add", draft.add("Add", y, draft.weight(width)), x)


def scores(draft: Draft, random: Random) -> None:
    """A product of two activations, as in attention, with what surrounds it."""
    heads, tokens = pick(random, (1, 2, 3, 4, 6, 8, 12, 16)), pick(random, TOKENS)
    width = pick(random, (16, 32, 48, 64, 80, 128))
    query = draft.input(1, heads, tokens, width)
    key = draft.input(1, heads, width, tokens)
    y = draft.add("MatMul", query, key)
    if random.random() < 0.5:
        y = draft.add("Softmax", y, axis=-1)
        draft.add("MatMul", y, draft.input(1, heads, tokens, width))


def attention(draft: Draft, random: Random) -> None:
    """Scaled attention of several heads."""
    heads, tokens = pick(random, (1, 2, 3, 4, 6, 8, 12, 16)), pick(random, TOKENS)
    width = pick(random, (16, 32, 48, 64, 80, 128))
    shape = (1, heads, tokens, width)
    draft.add("Attention", *(draft.input(*shape) for _ in range(3)))


def normalization(draft: Draft, random: Random) -> None:
    """Normalization of tokens or of maps."""
    kind = pick(random, ("layer", "layer", "rms", "group", "scale", "lrn"))
    if kind in ("layer", "rms"):
        width = pick(random, WIDTHS)
        x = draft.input(1, pick(random, TOKENS), width)
        scales = [draft.weight(width) for _ in range(2 if kind == "layer" else 1)]
        op = "LayerNormalization" if kind == "layer" else "RMSNormalization"
        draft.add(op, x, *scales, axis=-1)
        return
    channels = pick(random, CHANNELS)
    x = draft.input(1, channels, *(pick(random, MAPS[:22]),) * 2)
    if kind == "scale":
        y = normalized(draft, x, channels)
        if random.random() < 0.5:
            draft.add("Relu", y)
    elif kind == "lrn":
        draft.add("LRN", x, size=5)
    else:
        scales = [draft.weight(channels) for _ in range(2)]
        draft.add("GroupNormalization", x, *scales, num_groups=pick(random, (1, 4, 8)))


def elementwise(draft: Draft, random: Random) -> None:
    """A function of each element, of one input or two."""
    shape: tuple[int, ...]
    if random.random() < 0.5:
        shape = (1, pick(random, CHANNELS), *(pick(random, MAPS[:24]),) * 2)
    else:
        shape = (1, pick(random, TOKENS), pick(random, WIDTHS))
    op = pick(random, ("Add", "Add", "Mul", "Relu", "Relu", "Sigmoid", "Tanh", "Gelu", "Exp",
                       "Clip", "Erf", "HardSwish", "Sqrt", "LeakyRelu"))  # fmt: skip
    two = [draft.input(*shape) for _ in range(2 if op in ("Add", "Mul") else 1)]
    draft.add(op, *two)


def pool(draft: Draft, random: Random) -> None:
    """Pooling over windows, or over whole maps."""
    channels = pick(random, CHANNELS)
    pooled(draft, random, draft.input(1, channels, *(pick(random, MAPS[:24]),) * 2))


def pooled(draft: Draft, random: Random, x: str) -> None:
    """Pooling of a map."""
    op = pick(random, ("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean"))
    if op == "ReduceMean":
        draft.add(op, x, draft.integers(2, 3), keepdims=1)
    elif op == "GlobalAveragePool":
        draft.add(op, x)
    else:
        size, stride = pick(random, ((2, 2), (3, 2), (3, 1), (3, 2)))
        pad = size // 2 if size == 3 else 0
        draft.add(op, x, kernel_shape=(size, size), strides=(stride, stride), pads=(pad,) * 4)


def softmax(draft: Draft, random: Random) -> None:
    """Softmax over the last axis."""
    shape = pick(random, ((1, 1000), (1, 21841), (1, 12, 197, 197), (1, 8, 64, 64), (16, 4, 49, 49),
                          (1, 16, 512, 512), (1, 1, 50257), (1, 4, 100, 400)))  # fmt: skip
    draft.add("Softmax", draft.input(*shape), axis=-1)


@dataclass(frozen=True)
class _Sizes:
    """Sizes of data that are moved: of a map, and of tokens."""

    channels: int
    side: int
    tokens: int
    width: int

    def map(self, draft: Draft) -> str:
        """A map as input."""
        return draft.input(1, self.channels, self.side, self.side)


def _joined(draft: Draft, random: Random, sizes: _Sizes) -> None:
    x = sizes.map(draft)
    others = [draft.input(1, pick(random, CHANNELS[:15]), sizes.side, sizes.side)
              for _ in range(pick(random, (1, 1, 3)))]  # fmt: skip
    draft.add("Concat", x, *others, axis=1)


def _split(draft: Draft, random: Random, sizes: _Sizes) -> None:
    draft.add("Split", sizes.map(draft), axis=1, num_outputs=2, results=2)


def _cut(draft: Draft, random: Random, sizes: _Sizes) -> None:
    x = sizes.map(draft)
    draft.add("Slice", x, draft.integers(1), draft.integers(sizes.side), draft.integers(3))


def _channels_last(draft: Draft, random: Random, sizes: _Sizes) -> None:
    draft.add("Transpose", sizes.map(draft), perm=(0, 2, 3, 1))


def _in_heads(draft: Draft, random: Random, sizes: _Sizes) -> None:
    heads = max(1, sizes.width // 64)
    shape = draft.integers(1, sizes.tokens, heads, sizes.width // heads)
    y = draft.add("Reshape", draft.input(1, sizes.tokens, sizes.width), shape)
    draft.add("Transpose", y, perm=pick(random, ((0, 2, 1, 3), (0, 2, 3, 1))))


def _shuffled(draft: Draft, random: Random, sizes: _Sizes) -> None:
    shape = (1, sizes.channels, sizes.side, sizes.side)
    groups = draft.integers(1, 4, sizes.channels // 4, sizes.side, sizes.side)
    y = draft.add("Reshape", sizes.map(draft), groups)
    y = draft.add("Transpose", y, perm=(0, 2, 1, 3, 4))
    draft.add("Reshape", y, draft.integers(*shape))


def _in_windows(draft: Draft, random: Random, sizes: _Sizes) -> None:
    shape = draft.integers(1, sizes.channels, 1, sizes.side, 1, sizes.side)
    y = draft.add("Reshape", sizes.map(draft), shape)
    draft.add("Transpose", y, perm=(0, 2, 4, 3, 5, 1))


def _padded(draft: Draft, random: Random, sizes: _Sizes) -> None:
    draft.add("Pad", sizes.map(draft), draft.integers(0, 0, 1, 1, 0, 0, 1, 1))


def _enlarged(mode: str) -> Callable[[Draft, Random, _Sizes], None]:
    def enlarged(draft: Draft, random: Random, sizes: _Sizes) -> None:
        wanted = draft.integers(1, sizes.channels, 2 * sizes.side, 2 * sizes.side)
        draft.add("Resize", sizes.map(draft), "", "", wanted, mode=mode)

    return enlarged


def _looked_up(draft: Draft, random: Random, sizes: _Sizes) -> None:
    words = draft.weight(pick(random, (1000, 8000, 30000)), sizes.width)
    draft.add("Gather", words, draft.input(1, sizes.tokens, dtype="int64"), axis=0)


_MOVES = (_joined, _joined, _split, _cut, _channels_last, _in_heads, _shuffled, _padded,
          _enlarged("nearest"), _enlarged("linear"), _looked_up, _in_windows)  # fmt: skip


def moving(draft: Draft, random: Random) -> None:
    """Data that change their place: joined, cut, transposed, enlarged, looked up."""
    channels, side = pick(random, CHANNELS), pick(random, MAPS[:22])
    tokens, width = pick(random, TOKENS[3:]), pick(random, WIDTHS)
    pick(random, _MOVES)(draft, random, _Sizes(channels, side, tokens, width))


def recurrent(draft: Draft, random: Random) -> None:
    """A recurrent layer over a sequence."""
    op, gates = pick(random, (("LSTM", 4), ("GRU", 3), ("LSTM", 4)))
    steps, width, hidden = (pick(random, each) for each in
                            ((8, 16, 32, 64, 128), WIDTHS[:8], WIDTHS[:8]))  # fmt: skip
    directions = pick(random, (1, 1, 2))
    extra = {"linear_before_reset": 1} if op == "GRU" else {}
    draft.add(
        op,
        draft.input(steps, 1, width),
        draft.weight(directions, gates * hidden, width),
        draft.weight(directions, gates * hidden, hidden),
        draft.weight(directions, 2 * gates * hidden),
        hidden_size=hidden,
        direction="bidirectional" if directions == 2 else "forward",
        **extra,
    )


FAMILIES: Mapping[Family, int] = {
    convolution: 30,
    depthwise: 8,
    grouped: 5,
    inverted: 5,
    bottleneck: 5,
    transposed: 2,
    connected: 5,
    projection: 10,
    perceptron: 4,
    scores: 4,
    attention: 3,
    normalization: 6,
    elementwise: 8,
    pool: 6,
    softmax: 1,
    moving: 9,
    recurrent: 2,
}
"""Families, and how many networks of each are drawn of about a hundred."""
