"""Families that join last, for networks in short types.

Frameworks compute in them with other kernels than in float32, or convert each value on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlbricks_prediction.survey.families import (
    CHANNELS,
    MAPS,
    TOKENS,
    WIDTHS,
    Draft,
    Family,
    Random,
    attention,
    bottleneck,
    connected,
    convolution,
    depthwise,
    elementwise,
    inverted,
    moving,
    normalization,
    perceptron,
    pick,
    pool,
    projection,
    recurrent,
    scores,
    softmax,
)

_SCALE = 0.02
"""Difference of the numbers that two successive codes stand for."""

_ALL = (
    convolution, convolution, convolution, depthwise, inverted, bottleneck, connected, projection,
    projection, perceptron, scores, attention, normalization, elementwise, pool, softmax, moving,
    recurrent,
)  # fmt: skip
"""Families that are drawn in short floating-point types."""

_PRODUCTS = (connected, projection, projection, perceptron)
"""Families whose products with weights are quantized."""


def half_floats(draft: Draft, random: Random) -> None:
    """A layer or a block in floating-point numbers of 16 bits."""
    pick(random, _ALL)(draft, random)
    draft.dtype = pick(random, ("bfloat16", "float16"))


def dynamic_codes(draft: Draft, random: Random) -> None:
    """Products of codes, to which activations are quantized in each run."""
    pick(random, _PRODUCTS)(draft, random)
    draft.dtype = "int8"


def packed_weights(draft: Draft, random: Random) -> None:
    """Products with weights of few bits, as of language models."""
    if random.random() < 0.5:
        pick(random, _PRODUCTS[1:])(draft, random)
        draft.dtype = "int4"
        return
    tokens, depth = pick(random, TOKENS), pick(random, (256, 512, 768, 1024, 2048, 4096))
    columns = pick(random, (*WIDTHS[4:], 3072, 4096))
    bits, block = pick(random, (4, 4, 8)), pick(random, (16, 32, 32, 64, 128))
    blocks = depth // block
    draft.add(
        "com.microsoft:MatMulNBits",
        draft.input(1, tokens, depth),
        draft.weight(columns, blocks, block * bits // 8, dtype="uint8"),
        draft.weight(columns * blocks),
        K=depth,
        N=columns,
        bits=bits,
        block_size=block,
        accuracy_level=pick(random, (0, 4)),
    )


def coded_map(draft: Draft, random: Random) -> None:
    """Operators that read and write codes of maps: a convolution, and what surrounds it."""
    codes = pick(random, ("uint8", "uint8", "int8"))
    scale = draft.number(_SCALE), draft.zero_point(codes)
    read, written, side = pick(random, (3, *CHANNELS)), pick(random, CHANNELS), pick(random, MAPS)
    group = 1
    if random.random() < 0.3:
        read, group = written, written
    size, stride = pick(random, (1, 1, 3, 3, 3, 5, 7)), pick(random, (1, 1, 1, 2))
    x = draft.input(1, read, side, side, dtype=codes)
    y = draft.add(
        "QLinearConv",
        x,
        *scale,
        draft.weight(written, read // group, size, size, dtype="int8"),
        draft.weight(written) if random.random() < 0.5 else draft.number(_SCALE),
        draft.zero_point("int8"),
        *scale,
        draft.weight(written, dtype="int32"),
        kernel_shape=(size, size),
        strides=(stride, stride),
        pads=(size // 2,) * 4,
        group=group,
    )
    shape = (1, written, *((side - 1) // stride + 1,) * 2)
    pick(random, _FOLLOWERS)(_Codes(draft, random, y, scale, shape, codes))


@dataclass(frozen=True)
class _Codes:
    """Codes of a map in a draft: their name, scale with zero point, shape and type."""

    draft: Draft
    random: Random
    name: str
    scale: tuple[str, str]
    shape: tuple[int, ...]
    dtype: str


def _none(_: _Codes) -> None:
    """Nothing follows."""


def _pooled(x: _Codes) -> None:
    x.draft.add("MaxPool", x.name, kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4)


def _joined(x: _Codes) -> None:
    other = (1, pick(x.random, CHANNELS[:15]), *x.shape[2:])
    operand = x.draft.input(*other, dtype=x.dtype), *x.scale
    x.draft.add("com.microsoft:QLinearConcat", *x.scale, x.name, *x.scale, *operand, axis=1)


def _with_another(op: str) -> Callable[[_Codes], None]:
    """Adds a function of two maps of codes."""

    def follow(x: _Codes) -> None:
        operand = x.draft.input(*x.shape, dtype=x.dtype), *x.scale
        x.draft.add(f"com.microsoft:{op}", x.name, *x.scale, *operand, *x.scale)

    return follow


def _unary(op: str, **attributes: Any) -> Callable[[_Codes], None]:
    """Adds a function of one map of codes."""

    def follow(x: _Codes) -> None:
        x.draft.add(f"com.microsoft:{op}", x.name, *x.scale, *x.scale, **attributes)

    return follow


_FOLLOWERS: Sequence[Callable[[_Codes], None]] = (
    _none, _none, _none, _with_another("QLinearAdd"), _with_another("QLinearMul"), _pooled,
    _unary("QLinearGlobalAveragePool"), _joined, _unary("QLinearSigmoid"),
    _unary("QLinearLeakyRelu", alpha=0.1),
)  # fmt: skip
"""Layers that may follow a convolution of codes."""


def _coded(draft: Draft, x: str, codes: str, *, rectified: bool = False) -> str:
    """Codes of a tensor, and the tensor that they stand for."""
    scale = draft.number(_SCALE), draft.zero_point(codes, least=rectified)
    return draft.add("DequantizeLinear", draft.add("QuantizeLinear", x, *scale), *scale)


def _coded_weight(draft: Draft, *shape: int, axis: int | None = None) -> str:
    """A weight that is kept as codes, with one scale, or with one for each part along an axis."""
    codes = draft.weight(*shape, dtype="int8")
    if axis is None:
        return draft.add("DequantizeLinear", codes, draft.number(_SCALE), draft.zero_point("int8"))
    return draft.add("DequantizeLinear", codes, draft.weight(shape[axis]), axis=axis)


def edges_of_maps(draft: Draft, random: Random) -> None:
    """Convolutions between tensors that are kept as codes."""
    codes = pick(random, ("uint8", "uint8", "int8"))
    read, side = pick(random, (3, *CHANNELS[:24])), pick(random, MAPS)
    rectified = random.random() < 0.5
    y = _coded(draft, draft.input(1, read, side, side), codes, rectified=rectified)
    for _ in range(pick(random, (1, 1, 2))):
        written = pick(random, (read, *CHANNELS))
        group = read if random.random() < 0.3 else 1
        written = read if group > 1 else written
        size, axis = pick(random, (1, 1, 3, 3, 5)), pick(random, (None, 0))
        # The scale of a bias is the product of the others'.
        scale = draft.number(_SCALE**2) if axis is None else draft.weight(written)
        y = draft.add(
            "Conv",
            y,
            _coded_weight(draft, written, read // group, size, size, axis=axis),
            draft.add("DequantizeLinear", draft.weight(written, dtype="int32"), scale, axis=0),
            kernel_shape=(size, size),
            strides=(1, 1),
            pads=(size // 2,) * 4,
            group=group,
        )
        rectified = random.random() < 0.6
        y = draft.add("Relu", y) if rectified else y
        y, read = _coded(draft, y, codes, rectified=rectified), written
    _after(draft, random, y, (1, read, side, side), codes)


def _after(draft: Draft, random: Random, y: str, shape: tuple[int, ...], codes: str) -> None:
    """Adds layers that may follow a coded map: a sum, a pool, or its mean."""
    kind = pick(random, ("", "", "add", "pool", "mean"))
    if kind == "add":
        y = draft.add("Add", y, _coded(draft, draft.input(*shape), codes))
    elif kind == "pool":
        y = draft.add("MaxPool", y, kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4)
    elif kind == "mean":
        y = draft.add("GlobalAveragePool", y)
    if kind:
        _coded(draft, y, codes)


def edges_of_tokens(draft: Draft, random: Random) -> None:
    """Products between tensors that are kept as codes."""
    codes = pick(random, ("uint8", "uint8", "int8"))
    tokens, depth = pick(random, TOKENS), pick(random, WIDTHS)
    columns = pick(random, (10, *WIDTHS, 3072))
    x = _coded(draft, draft.input(1, tokens, depth), codes)
    y = draft.add("MatMul", x, _coded_weight(draft, depth, columns, axis=pick(random, (None, 1))))
    kind = pick(random, ("", "", "add", "gelu", "edge", "edge"))
    if kind in ("add", "gelu") and codes == "uint8":
        # ONNX Runtime 1.31 makes a Gemm of them, and then refuses its own codes if they are int8.
        y = draft.add("Add", y, draft.weight(columns))
        y = draft.add("Gelu", y) if kind == "gelu" else y
    if kind != "":
        _coded(draft, y, codes)


def coded_tokens(draft: Draft, random: Random) -> None:
    """A product of codes whose result is codes, or numbers of 32 bits."""
    tokens, depth = pick(random, TOKENS), pick(random, WIDTHS)
    columns = pick(random, (10, *WIDTHS, 3072))
    x = draft.input(1, tokens, depth, dtype="uint8")
    weight = draft.weight(depth, columns, dtype="int8")
    scale, zero, of_weight = (
        draft.number(_SCALE),
        draft.zero_point("uint8"),
        draft.zero_point("int8"),
    )
    if random.random() < 0.3:
        draft.add("MatMulInteger", x, weight, zero, of_weight)
    else:
        draft.add("QLinearMatMul", x, scale, zero, weight, scale, of_weight, scale, zero)


def coding(draft: Draft, random: Random) -> None:
    """Numbers that become codes, or codes that become numbers."""
    if random.random() < 0.5:
        shape: tuple[int, ...] = (1, pick(random, CHANNELS), *(pick(random, MAPS[:24]),) * 2)
    else:
        shape = (1, pick(random, TOKENS), pick(random, WIDTHS))
    codes = pick(random, ("uint8", "uint8", "int8"))
    kind = pick(random, ("to", "from", "dynamic"))
    if kind == "dynamic":
        draft.add("DynamicQuantizeLinear", draft.input(*shape), results=3)
    elif kind == "to":
        x, scale = draft.input(*shape), draft.number(_SCALE)
        draft.add("QuantizeLinear", x, scale, draft.zero_point(codes))
    else:
        x, scale = draft.input(*shape, dtype=codes), draft.number(_SCALE)
        draft.add("DequantizeLinear", x, scale, draft.zero_point(codes))


SHORT: Mapping[Family, int] = {
    half_floats: 12,
    dynamic_codes: 5,
    packed_weights: 5,
    coded_map: 6,
    edges_of_maps: 8,
    edges_of_tokens: 5,
    coded_tokens: 3,
    coding: 2,
}
"""Families, and how many networks of each are drawn for about a hundred of the first ones."""
