"""In which memory layout MXNet hands feature maps on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

PLAIN = "plain"
"""Layout of a tensor that would be blocked if nothing were in the way."""

UNKNOWN = ""
"""Layout of a tensor of which nothing tells how a convolution left it."""

LAST = "acdb"
"""oneDNN's name of the layout with channels along the last axis."""


def blocks_of(channels: int) -> str:
    """The name that oneDNN has for the layout in which so many channels lie together."""
    return f"aBcd{channels}b"


_BLOCK = 8
_RANKS_WITH_BLOCKS = (4, 5)

#: Whatever they read, oneDNN writes their results in a layout that it chooses.
_BLOCKING = frozenset({"Conv", "ConvTranspose"})
#: oneDNN computes them on blocks as they come. MXNet 1.9.1 has no such kernel for anything
#: else that is lowered here, and puts the elements back into plain order first.
_KEEPING = frozenset(
    {"AveragePool", "BatchNormalization", "Elu", "Gelu", "GlobalAveragePool", "GlobalMaxPool",
     "LRN", "LeakyRelu", "MaxPool", "Relu", "Sigmoid", "Tanh"}
)  # fmt: skip
_KEEPING_ALL = frozenset({"Add", "Concat", "Sum"})
#: What they write is in plain order, whatever they read.
_MOVING = frozenset(
    {"Expand", "Flatten", "Gather", "MatMul", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
     "Unsqueeze"}
)  # fmt: skip
#: MXNet 1.9.1 crashes where these read blocks and work along the last axis.
_CRASHING = frozenset({"LogSoftmax", "Softmax"})


def may_be_blocked(spec: TensorSpec) -> bool:
    """Whether convolutions leave such a tensor in blocks of channels."""
    return spec.dtype == "float32" and spec.rank == 4 and spec.sizes[1] % _BLOCK == 0


def fed_layout(model: CanonicalModel, name: str) -> str:
    """In which layout an input of a brick is to be fed."""
    spec = model.tensors[name]
    readers = {model.layers[index].op for index in model.consumers.get(name, ())}
    return PLAIN if not may_be_blocked(spec) or readers & _CRASHING else spec.layout


def comes_in_blocks(model: CanonicalModel, name: str) -> bool:
    """Whether a tensor may be in blocks: a convolution is behind it, and nothing that moves."""
    waiting, seen = [name], set[str]()
    while waiting:
        current = waiting.pop()
        spec, producer = model.tensors[current], model.producers.get(current)
        plain = spec.rank not in _RANKS_WITH_BLOCKS or spec.dtype != "float32"
        if producer is None or plain or current in seen:
            continue
        seen.add(current)
        layer = model.layers[producer]
        if layer.op in _BLOCKING:
            return True
        if layer.op not in _MOVING:
            waiting += filter(None, layer.inputs)
    return False


def with_layouts(
    model: CanonicalModel, made_by: Callable[[CanonicalModel, int], str]
) -> CanonicalModel:
    """The model with every feature map marked by the layout in which it reaches its readers.

    A layer that does not know a layout costs its readers a conversion, or computes several times
    as long: its bricks and those that read what it wrote have to be fed accordingly.

    Args:
        model: In canonical form.
        made_by: Layout that a convolution leaves, or UNKNOWN; the model and the layer's index.
    """
    layouts: dict[str, str] = {}
    for index, layer in enumerate(model.layers):
        first = layer.outputs[0]  # nobody may want it: of an LSTM, only the last state
        if first and _is_map(model, first) and math.prod(model.tensors[first].sizes[2:]) > 1:
            layouts[first] = (
                made_by(model, index)
                if layer.op in _BLOCKING and not layer.domain
                else _handed_on(model, layer, layouts)
            )
    tensors = {
        name: replace(spec, layout=layouts.get(name, PLAIN)) if _is_map(model, name) else spec
        for name, spec in model.tensors.items()
    }
    return replace(model, tensors=tensors)


def _is_map(model: CanonicalModel, name: str) -> bool:
    spec = model.tensors[name]
    return name not in model.weights and spec.is_static and may_be_blocked(spec)


def _handed_on(model: CanonicalModel, layer: Layer, layouts: Mapping[str, str]) -> str:
    """Layout of what a layer writes that is no convolution."""
    read = [layouts.get(name, PLAIN) for name in layer.inputs]
    if layer.domain or not read:
        return PLAIN
    if layer.op in _KEEPING:
        # GELU by way of the hyperbolic tangent is lowered to several operators.
        exact = layer.attributes.get("approximate", "none") == "none"
        return read[0] if exact else PLAIN
    if layer.op not in _KEEPING_ALL or layer.attributes.get("axis", 1) != 1:
        return PLAIN
    if layer.op != "Concat":
        if len({model.tensors[name].shape for name in layer.inputs}) > 1:
            return PLAIN
        # The sum takes the place of an input that nobody else needs, and its layout.
        replaced = (name for name in layer.inputs if _is_handed_over(model, name))
        if (name := next(replaced, None)) is not None:
            return layouts.get(name, PLAIN)
    # oneDNN takes on the first layout in blocks, or else the first.
    return next((layout for layout in read if layout not in (PLAIN, LAST)), read[0])


def _is_handed_over(model: CanonicalModel, name: str) -> bool:
    """Whether the memory of a tensor is free once its only reader is done."""
    return name in model.producers and name not in model.outputs and len(model.consumers[name]) == 1
