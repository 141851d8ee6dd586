"""Rows of the table of operators: facts about ONNX Runtime's own operators.

Operators of blocked layouts have rows alone: only ONNX Runtime writes them, while it optimizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dlbricks_core.ir import Layer, TensorSpec
from dlbricks_core.operators import OPERATORS, Lacks, Operator, Traffic
from dlbricks_core.operators.compound import attended, lengths
from dlbricks_core.operators.functions import window
from dlbricks_core.operators.movement import along
from dlbricks_core.operators.operator import (
    BIAS,
    CODED,
    CODES,
    DATA,
    FILTER,
    MIDDLE,
    NEAR_ONE,
    PARAMETER,
    RARE,
    SCALE,
    SMALL,
    ZERO_POINT,
    FlopsRule,
    Input,
    Interval,
    LengthRule,
    Specs,
    always,
    each_input,
    each_output,
    halved,
    has,
    row,
    rows_of,
    size,
    sizes,
    unit,
    whole,
)
from dlbricks_core.operators.ranges.interval import EVERYTHING, RangeStep, Rule
from dlbricks_core.operators.ranges.weighted import of_convolution, of_matrices, weighted

_OWN = Lacks("it has its own kernels, which were never measured")

# Values to draw


def _of_depth(depth: int) -> Interval:
    """Weights of sums over so many products that keep the magnitude."""
    half = math.sqrt(3 / max(depth, 1))
    return -half, half


def _columns(layer: Layer, spec: TensorSpec) -> Interval:
    """Factor on the right of a matrix product, maybe transposed."""
    turned = layer.attributes.get("transB", 0)
    return _of_depth(spec.sizes[-1 if turned else -2] if spec.rank > 1 else spec.elements)


def _block_scale(layer: Layer, spec: TensorSpec) -> Interval:
    """Scales of blocks of a matrix of ``K`` rows."""
    codes = 1 << whole(layer, "bits", 4)
    spread = math.sqrt((codes**2 - 1) / 12)
    value = 1 / (spread * math.sqrt(max(whole(layer, "K"), 1)))
    return 0.9 * value, 1.1 * value


def _packed_middle(layer: Layer, spec: TensorSpec) -> Interval:
    """Zero points in the middle, as many in a byte as the codes are."""
    bits = whole(layer, "bits", 4)
    if spec.dtype != "uint8":
        return (1 << bits - 1,) * 2
    return (sum(1 << place + bits - 1 for place in range(0, 8, bits)),) * 2


_TURN = Input(drawn=always(-0.7, 0.7))
_WEIGHT_SCALE = Input(drawn=always(0.0005, 0.0010))
"""Scales of eight-bit weights of sums over some hundreds to thousands of products."""

_BLOCK_SCALE = Input(drawn=_block_scale, compensates=True)
_COLUMNS = Input(drawn=_columns, compensates=True)
_EXPERTS = Input(drawn=lambda layer, spec: _of_depth(spec.sizes[-1]))
_PACKED_MIDDLE = Input(codes=_packed_middle)
_TABLE = Input(table=True)

# Attention, recurrent layers and normalizations: operations


def _grouped(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    batch, steps, width = sizes(outputs, 0)
    heads, shared = whole(layer, "num_heads"), whole(layer, "kv_num_heads")
    past = sizes(inputs, 3)[2] if has(inputs, 3) else 0
    keys = max(past + steps if not has(outputs, 1) else sizes(outputs, 1)[2], steps)
    each = width // heads
    turned = 3 * batch * steps * (heads + shared) * each if whole(layer, "do_rotary") else 0
    return attended(batch, heads, steps, keys, each) + turned


def _multi_head(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    batch, steps, width = sizes(outputs, 0)
    heads = whole(layer, "num_heads")
    keys = steps
    if has(inputs, 1):
        key = sizes(inputs, 1)
        keys = key[2] if len(key) == 4 else key[1]
    past = sizes(inputs, 6)[2] if has(inputs, 6) else 0
    return attended(batch, heads, steps, keys + past, width // heads)


def _projected(past: int) -> FlopsRule:
    """Rule of attention with the projection inside."""

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        batch, steps, width = sizes(inputs, 0)
        heads, columns = whole(layer, "num_heads"), sizes(inputs, 1)[1]
        keys = steps + (sizes(inputs, past)[3] if has(inputs, past) else 0)
        each = sizes(outputs, 0)[2] // heads
        projection = batch * steps * columns * (2 * width + has(inputs, 2))
        return projection + attended(batch, heads, steps, keys, each)

    return rule


def _coded_cells(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Four gates from input and state, with both biases, and five updates of the state."""
    steps, batch, _ = sizes(inputs, 0)
    directions, hidden, _ = sizes(inputs, 2)
    biases = 2 if has(inputs, 3) else 0
    products = 2 * (size(inputs, 1) + size(inputs, 2))
    return steps * batch * (products + directions * hidden * (4 * (biases + 1) + 5))


def _skip(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A sum, then: mean, difference, variance (2), division, scale, optional shift."""
    return size(outputs) * (7 + has(inputs, 3) + has(inputs, 4))


# Attention: lengths and indices


def _all_steps(layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]) -> int:
    """Steps of the longest sequence: by default the steps of the cache and the new steps."""
    if 6 in known:
        return known[6]
    past = sizes(inputs, 3)[2] if inputs[3] is not None else 0
    return past + sizes(inputs, 0)[1]


def _last_step(layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]) -> int:
    """Last step of every sequence."""
    return _all_steps(layer, inputs, outputs, known) - 1


def _ends(at: int, past: int) -> LengthRule:
    """Ends of sequences, then their starts if there are as many of these.

    Args:
        at: Position of the input that holds them.
        past: Position of the cache.
    """

    def rule(
        layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]
    ) -> tuple[int, ...] | None:
        batch, steps, _ = sizes(inputs, 0)
        mask = sizes(inputs, at)
        cached = inputs[past] if past < len(inputs) else None
        total = steps + (0 if cached is None else cached.sizes[3])
        if len(mask) != 1 or mask[0] not in (batch, 2 * batch):
            return None
        return (total,) * batch + (0,) * (mask[0] - batch)

    return rule


def _keys_of_heads(
    layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]
) -> int | None:
    """Numbers of keys, if they are no mask and no sums of lengths."""
    if len(sizes(inputs, 4)) != 1 or sizes(inputs, 4) != sizes(inputs, 0)[:1]:
        return None
    key = sizes(inputs, 1) if inputs[1] is not None else sizes(inputs, 0)
    return key[2] if len(key) == 4 else key[1]


def _shift_of_positions(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """First positions of ONNX Runtime's rotary embedding; one for all steps where it is alone."""
    rows, data = sizes(inputs, 2)[0], sizes(inputs, 0)
    steps = data[2] if len(data) == 4 else data[1]
    return rows - steps + 1 if len(sizes(inputs, 1)) == 1 else rows


# Products


def _fused_conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A multiply-add for each weight of the filter, bias, summand and activation, per element."""
    added = has(inputs, 2) + has(inputs, 3) + ("activation" in layer.attributes)
    return size(outputs) * (2 * math.prod(sizes(inputs, 1)[1:]) + added)


def _product(bias: int, more: int = 0, turned: str = "") -> FlopsRule:
    """Rule of a matrix product.

    Args:
        bias: Position of an input that is added.
        more: Further operations for each element of the result.
        turned: Attribute that says whether the first factor is transposed.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        axis = -2 if turned and layer.attributes.get(turned) else -1
        return size(outputs) * (2 * sizes(inputs, 0)[axis] + more + has(inputs, bias))

    return rule


def _fused_gemm(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    rule = _product(2, more="activation" in layer.attributes, turned="transA")
    return rule(layer, inputs, outputs)


def _experts(weights: Sequence[int], *, packed: bool) -> FlopsRule:
    """Rule of products with the matrices of the experts that a token is sent to.

    Args:
        weights: Positions of the matrices of all experts.
        packed: Whether several codes of weights lie in a byte.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        tokens = size(inputs) // sizes(inputs, 0)[-1]
        bits: int = layer.attributes.get("expert_weight_bits", 4) if packed else 8  # type: ignore[assignment]
        chosen: int = layer.attributes.get("k", 1)  # type: ignore[assignment]
        held = sum(size(inputs, place) for place in weights)
        return int(tokens * chosen * 2 * held * (8 // bits) // sizes(inputs, 2)[0])

    return rule


def _without_fused(rule: Rule) -> Rule:
    """The rule of a layer without a fused activation or summand; nothing is known of others."""

    def fused(step: RangeStep) -> bool:
        return "activation" in step.layer.attributes or any(step.inputs[3:])

    return Rule(
        lambda step: [EVERYTHING] if fused(step) else rule.image(step),
        lambda step, wanted: {} if fused(step) else rule.asked(step, wanted),
    )


_CONVOLVED = _without_fused(weighted(of_convolution, bias=2))

_RESULT = (SCALE, ZERO_POINT)
"""Scale and zero point of the codes of a result."""

_REORDERED = Rule(lambda step: [step.ranges[0].hull()], lambda step, wanted: {0: wanted[0].core()})
"""A layout of another framework: elements keep their values, and their places are not told."""

_LAYOUT = Lacks("it is a framework's own, and takes what its layout costs")

ROWS: Mapping[str, Operator] = {
    "com.microsoft.Attention": row(
        "attention", _projected(past=4), DATA, _COLUMNS, DATA, Input(length=_ends(3, past=4)), DATA,
        DATA, PARAMETER,
    ),
    "com.microsoft.GroupQueryAttention": row(
        "attention:grouped", _grouped, *(DATA,) * 5, Input(length=_last_step),
        Input(parameter=True, length=_all_steps), _TURN, _TURN, rows_of(7), *(DATA,) * 4, NEAR_ONE,
        NEAR_ONE, caches=((3, 1), (4, 2)),
    ),
    "com.microsoft.MultiHeadAttention": row(
        _OWN, _multi_head, *(DATA,) * 4, Input(length=_keys_of_heads), *(DATA,) * 3, PARAMETER, DATA
    ),
    "com.microsoft.QAttention": row(
        "attention:8-bit", _projected(past=8), DATA, CODES, DATA, SCALE, _WEIGHT_SCALE,
        Input(length=_ends(5, past=8)), ZERO_POINT, MIDDLE, DATA,
    ),
    "com.microsoft.RotaryEmbedding": row(
        _OWN, each_output(3), DATA, Input(below=_shift_of_positions), _TURN, _TURN
    ),
    "com.microsoft.DynamicQuantizeLSTM": row(
        "recurrent:8-bit", _coded_cells, DATA, CODES, CODES, DATA, Input(below=lengths), DATA, DATA,
        DATA, _WEIGHT_SCALE, MIDDLE, _WEIGHT_SCALE, MIDDLE,
    ),
    "com.microsoft.SkipLayerNormalization": row(
        _OWN, _skip, DATA, DATA, NEAR_ONE, SMALL, DATA, channels_last=True, power=unit
    ),
    # A sum, then: square and mean (2), division, scale.
    "com.microsoft.SkipSimplifiedLayerNormalization": row(
        _OWN, each_output(5, bias=3), DATA, DATA, NEAR_ONE, DATA, channels_last=True, power=unit
    ),
    # Sums of embeddings, and a normalization.
    "com.microsoft.EmbedLayerNormalization": row(
        _OWN, each_output(9), rows_of(2), rows_of(4), _TABLE, _TABLE, _TABLE, NEAR_ONE, DATA, DATA,
        rows_of(3), power=unit,
    ),
    # Embeddings are made of codes besides: a shift and a scale for each of three.
    "com.microsoft.QEmbedLayerNormalization": row(
        _OWN, each_output(15), rows_of(2), rows_of(4), _TABLE, _TABLE, _TABLE, *(DATA,) * 13,
        power=unit,
    ),
    "SimplifiedLayerNormalization": row(
        _OWN, each_output(4), DATA, NEAR_ONE, channels_last=True, power=unit
    ),
    "com.microsoft.BiasGelu": row(_OWN, each_output(2), DATA, DATA, power=halved),
    "com.microsoft.FastGelu": row(_OWN, each_output(1, bias=1), DATA, DATA, power=halved),
    "com.microsoft.Gelu": row("function", each_output(1), DATA, power=halved),
    "com.microsoft.QuickGelu": row(_OWN, each_output(1), DATA, power=halved),
    "com.microsoft.NhwcMaxPool": row(_OWN, window(1), DATA),
    "com.microsoft.DequantizeLinear": OPERATORS["DequantizeLinear"],
    "com.microsoft.QuantizeLinear": OPERATORS["QuantizeLinear"],
    # Quantizing shifts and scales (2), and so does requantizing.
    "com.microsoft.QLinearAdd": row("elementwise:add", each_output(7), *CODED * 2, *_RESULT),
    "com.microsoft.QLinearAveragePool": row("pool:mean", window(1), *CODED, *_RESULT),
    "com.microsoft.QLinearConcat": row(
        "copy:joined", each_output(4), *_RESULT, *CODED, repeated=len(CODED)
    ),
    "com.microsoft.QLinearGlobalAveragePool": row("reduce:map", each_input(1), *CODED, *_RESULT),
    "com.microsoft.QLinearLeakyRelu": row("elementwise", each_output(5), *CODED, *_RESULT),
    "com.microsoft.QLinearMul": row("elementwise:mul", each_output(7), *CODED * 2, *_RESULT),
    "com.microsoft.QLinearReduceMean": row("reduce:sum", each_input(1), *CODED, *_RESULT),
    "com.microsoft.QLinearSigmoid": row("function", each_output(5), *CODED, *_RESULT),
    "com.microsoft.QLinearSoftmax": row("softmax", each_output(4 + 5), *CODED, *_RESULT),
    "com.microsoft.QLinearWhere": row("elementwise", each_output(4), DATA, *CODED * 2, *_RESULT),
    "com.microsoft.GatherBlockQuantized": row(
        RARE, each_output(2), CODES, Input(below=along("gather_axis")),
        Input(drawn=always(0.1, 0.12)), _PACKED_MIDDLE, traffic=Traffic.PICKED,
    ),
    "com.microsoft.nchwc.ReorderInput": row(_LAYOUT, _LAYOUT, DATA, ranges=_REORDERED),
    "com.microsoft.nchwc.ReorderOutput": row(_LAYOUT, _LAYOUT, DATA, ranges=_REORDERED),
    "com.microsoft.FusedConv": row(
        "convolution", _fused_conv, DATA, FILTER, BIAS, DATA, power=unit,
        ranges=_CONVOLVED,
    ),
    "com.microsoft.nchwc.Conv": row(
        "convolution", OPERATORS["Conv"].flops, DATA, FILTER, BIAS, DATA, power=unit,
        ranges=_CONVOLVED,
    ),
    "com.microsoft.FusedGemm": row("product", _fused_gemm, DATA, _COLUMNS, DATA, power=unit),
    "com.microsoft.FusedMatMul": row(
        "product", _product(2, turned="transA"), DATA, _COLUMNS, power=unit,
        ranges=weighted(of_matrices),
    ),
    "com.microsoft.DynamicQuantizeMatMul": row(
        "product:8-bit", _product(4, more=2), DATA, CODES, _WEIGHT_SCALE, MIDDLE, DATA, power=unit
    ),
    "com.microsoft.MatMulIntegerToFloat": row(
        "product:8-bit", _product(6, more=2), DATA, CODES, SCALE, _WEIGHT_SCALE, ZERO_POINT, MIDDLE,
        DATA, power=unit,
    ),
    "com.microsoft.QGemm": row(
        "product:8-bit", _product(6, more=2, turned="transA"), *CODED, *CODED, DATA, SCALE,
        ZERO_POINT,
    ),
    "com.microsoft.MatMulNBits": row(
        "product:bits", _product(5), DATA, CODES, _BLOCK_SCALE, _PACKED_MIDDLE, DATA, DATA,
        power=unit,
    ),
    "com.microsoft.MoE": row(
        "product:experts", _experts((2, 4, 6), packed=False), DATA, DATA, *(_EXPERTS, DATA) * 3
    ),
    "com.microsoft.QMoE": row(
        "product:experts", _experts((2, 5, 8), packed=True), DATA, DATA,
        *(CODES, _WEIGHT_SCALE, DATA) * 3, *(MIDDLE,) * 3, *(DATA,) * 7,
    ),
}  # fmt: skip
