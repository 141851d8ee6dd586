"""Torch operators that the exporter would take apart although ONNX has a counterpart.

Passed to ``torch.onnx.export`` as its ``custom_translation_table``: one function an
operator, with the operator's own signature, which writes ONNX nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript.values import Opset

from dlbricks_pytorch.bags import are_rows, bags, only_joined_rows, rows_of_bags

Value = Any  # a value of the graph that is being written
Translation = Callable[..., Any]

#: The first opset in which normalizations, GELU, SiLU and attention are one operator each.
OPSET = 24

op: Any = Opset("", OPSET)
_aten = torch.ops.aten


def translations(program: torch.export.ExportedProgram) -> dict[Callable[..., Any], Translation]:
    """The translations for a program; those that do not fit all of its layers are left out."""
    used: dict[Any, list[torch.fx.Node]] = {}
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                used.setdefault(node.target, []).append(node)
    return _ALWAYS | {
        target: translation
        for target, translation, fits in _CONDITIONAL
        if all(fits(node) for node in used.get(target, ()))
    }


def _silu(self: Value) -> Value:
    return op.Swish(self)


def _elu(self: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    return _times(op.Elu(_times(self, input_scale), alpha=alpha / input_scale), scale)


def _softplus(self: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    result = _times(op.Softplus(_times(self, beta)), 1 / beta)
    if threshold >= 20:  # torch then leaves the input as it is, which rounds to the same
        return result
    bound = op.CastLike(op.Constant(value_float=float(threshold)), self)
    return op.Where(op.Greater(_times(self, beta), bound), self, result)


def _times(value: Value, factor: float) -> Value:
    if factor == 1:
        return value
    return op.Mul(value, op.CastLike(op.Constant(value_float=float(factor)), value))


def _convolution(
    input: Value,  # noqa: A002 - torch's name for it
    weight: Value,
    bias: Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value:
    """Without a bias of zeros where the layer has none."""
    axes = len(weight.shape) - 2
    unbatched = len(input.shape) == axes + 1
    result = op.Conv(
        op.Unsqueeze(input, [0]) if unbatched else input,
        weight,
        bias,
        kernel_shape=list(weight.shape[2:]),
        strides=_each(stride, axes),
        pads=_each(padding, axes) * 2,
        dilations=_each(dilation, axes),
        group=groups,
    )
    return op.Squeeze(result, [0]) if unbatched else result


def _each(size: int | Sequence[int], axes: int) -> list[int]:
    sizes = [size] if isinstance(size, int) else list(size)
    return sizes * axes if len(sizes) == 1 else sizes


def _attention(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    # Dropout is idle in inference; grouped queries follow from the shapes.
    rank = len(query.shape)
    if rank > 4:
        return _attention_in_steps(query, key, value, attn_mask, is_causal, scale)
    axes = {3: [1], 2: [0, 1]}.get(rank, [])  # three axes are one head, two one batch of it
    if axes:
        query, key, value = (op.Unsqueeze(each, axes) for each in (query, key, value))
        if attn_mask is not None and len(attn_mask.shape) == 3:
            attn_mask = op.Unsqueeze(attn_mask, [1])
    if attn_mask is not None:
        attn_mask = _for_every_pair(attn_mask, query, key)
    result, *_ = op.Attention(query, key, value, attn_mask, scale=scale, is_causal=int(is_causal))
    return op.Squeeze(result, axes) if axes else result


def _for_every_pair(mask: Value, query: Value, key: Value) -> Value:
    """The mask with an element for each query and key: not all runtimes broadcast these axes."""
    pair = [query.shape[-2], key.shape[-2]]
    if list(mask.shape[-2:]) == pair:
        return mask
    ends = [op.Shape(each, start=-2, end=-1) for each in (query, key)]
    return op.Expand(mask, op.Concat(*ends, axis=0))


def _attention_in_steps(
    query: Value, key: Value, value: Value, mask: Value | None, is_causal: bool, scale: float | None
) -> Value:
    """More batch axes than ONNX's operator takes."""
    rank = len(query.shape)
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = op.MatMul(query, op.Transpose(key, perm=swapped))
    scores = _times(scores, factor)
    lowest = op.CastLike(op.Constant(value_float=-math.inf), query)
    if is_causal:
        ones = op.Expand(op.Constant(value_int=1), op.Shape(scores, start=-2))
        mask = op.Cast(op.Trilu(ones, upper=0), to=9)
    if mask is not None:
        boolean = is_causal or str(mask.dtype) == "BOOL"
        scores = op.Where(mask, scores, lowest) if boolean else op.Add(scores, mask)
    return op.MatMul(op.Softmax(scores, axis=-1), value)


def _recurrence(activation: str) -> Translation:
    def rnn(
        input: Value,  # noqa: A002 - torch's name for it
        hx: Value,
        params: Sequence[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Value, Value]:
        """An RNN layer for every layer, both directions in one."""
        directions = 1 + bidirectional
        each = 4 if has_biases else 2
        x = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
        states = []
        for layer in range(num_layers):
            first = layer * directions
            own = [params[(first + d) * each : (first + d + 1) * each] for d in range(directions)]
            w, r = (_stacked([direction[i] for direction in own]) for i in (0, 1))
            b = _stacked([op.Concat(*d[2:], axis=0) for d in own]) if has_biases else None
            y, h = op.RNN(
                x,
                w,
                r,
                b,
                None,
                op.Slice(hx, [first], [first + directions], [0]),
                activations=[activation] * directions,
                direction="bidirectional" if bidirectional else "forward",
                hidden_size=hx.shape[2],
            )
            states.append(h)
            # (length, directions, batch, hidden) to (length, batch, directions x hidden)
            x = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
        y = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
        return y, op.Concat(*states, axis=0) if num_layers > 1 else states[0]

    return rnn


def _stacked(values: Sequence[Value]) -> Value:
    stacked = [op.Unsqueeze(value, [0]) for value in values]
    return op.Concat(*stacked, axis=0) if len(stacked) > 1 else stacked[0]


def _split(self: Value, split_size: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    if isinstance(split_size, int):
        size = self.shape[dim]
        full, rest = divmod(size, split_size)
        sizes = [split_size] * full + ([rest] if rest else [])
    else:
        sizes = list(split_size)
    if len(sizes) == 1:
        return (op.Identity(self),)
    wanted = op.Constant(value_ints=sizes)
    parts: tuple[Value, ...] = op.Split(self, axis=dim, num_outputs=len(sizes))
    # The recorder learns the number of outputs only so; ONNX wants it or the sizes, not both.
    node = parts[0].producer()
    del node.attributes["num_outputs"]
    node.resize_inputs(2)
    node.replace_input_with(1, wanted)
    return parts


def _splits_known_size(node: torch.fx.Node) -> bool:
    source = node.args[0]
    assert isinstance(source, torch.fx.Node)
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
    sizes = node.args[1] if isinstance(node.args[1], Sequence) else [node.args[1]]
    return all(isinstance(size, int) for size in (source.meta["val"].shape[dim], *sizes))


def _average_to(self: Value, output_size: Sequence[int]) -> Value:
    sizes = self.shape[-len(output_size) :]
    if all(size == 1 for size in output_size):
        return op.GlobalAveragePool(self)
    windows = [size // wanted for size, wanted in zip(sizes, output_size, strict=True)]
    return op.AveragePool(self, kernel_shape=windows, strides=windows)


def _is_even(node: torch.fx.Node) -> bool:
    """Whether an adaptive pooling divides its batched input into windows of one size."""
    source, wanted = node.args[0], node.args[1]
    assert isinstance(source, torch.fx.Node)
    assert isinstance(wanted, Sequence)
    shape = source.meta["val"].shape
    if len(shape) != len(wanted) + 2:
        return False
    if all(size == 1 for size in wanted):
        return True
    return all(
        isinstance(size, int) and isinstance(target, int) and size % target == 0
        for size, target in zip(shape[2:], wanted, strict=True)
    )


def _shift_right(self: Value, other: Value | int) -> Value:
    """A shift of a type without a sign; the exporter's own gives it one."""
    places = op.Constant(value_int=other) if isinstance(other, int) else other
    return op.BitShift(self, op.CastLike(places, self), direction="RIGHT")


_UNSIGNED = frozenset({torch.uint8, torch.uint16, torch.uint32, torch.uint64})


def _has_no_sign(node: torch.fx.Node) -> bool:
    source = node.args[0]
    if not isinstance(source, torch.fx.Node):
        return False
    return {source.meta["val"].dtype, node.meta["val"].dtype} <= _UNSIGNED


_ALWAYS: dict[Callable[..., Any], Translation] = {
    _aten.conv1d.default: _convolution,
    _aten.conv2d.default: _convolution,
    _aten.conv3d.default: _convolution,
    _aten.silu.default: _silu,
    _aten.elu.default: _elu,
    _aten.softplus.default: _softplus,
    _aten.scaled_dot_product_attention.default: _attention,
    _aten.rnn_tanh.input: _recurrence("Tanh"),
    _aten.rnn_relu.input: _recurrence("Relu"),
}

#: Translations with what a layer must be like for them; the last that fits counts.
_CONDITIONAL: tuple[
    tuple[Callable[..., Any], Translation, Callable[[torch.fx.Node], bool]], ...
] = (
    (_aten.split.Tensor, _split, _splits_known_size),
    (_aten.split_with_sizes.default, _split, _splits_known_size),
    (_aten.adaptive_avg_pool1d.default, _average_to, _is_even),
    (_aten.adaptive_avg_pool2d.default, _average_to, _is_even),
    (_aten.adaptive_avg_pool3d.default, _average_to, _is_even),
    (_aten.__rshift__.Scalar, _shift_right, _has_no_sign),
    (_aten.bitwise_right_shift.Tensor_Scalar, _shift_right, _has_no_sign),
    (_aten.bitwise_right_shift.Tensor, _shift_right, _has_no_sign),
    (_aten.embedding_bag.padding_idx, bags, only_joined_rows),
    (_aten.embedding_bag.padding_idx, rows_of_bags, are_rows),
)
