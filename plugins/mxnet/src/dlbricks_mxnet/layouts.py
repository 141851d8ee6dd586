"""In which memory layout MXNet hands feature maps on."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import Layer, Model, TensorSpec

PLAIN = "plain"
"""Layout of a tensor that would be blocked if nothing were in the way."""

_BLOCK = 8
_RANKS_WITH_BLOCKS = (4, 5)

#: Whatever they read, oneDNN writes their results in blocks of channels.
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


def fed_in_blocks(model: Model, name: str) -> bool:
    """Whether an input of a brick is to be fed as a convolution would leave it."""
    spec = model.tensors[name]
    readers = {model.layers[index].op for index in model.consumers.get(name, ())}
    return may_be_blocked(spec) and spec.layout != PLAIN and not readers & _CRASHING


def comes_in_blocks(model: Model, name: str) -> bool:
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


def with_layouts(model: Model) -> Model:
    """The model with every feature map marked that reaches its readers in plain layout.

    A layer that does not know blocks costs its readers a conversion: its bricks and those
    that read what it wrote have to be fed accordingly.

    Args:
        model: In canonical form.
    """
    blocked: set[str] = set()
    for layer in model.layers:
        if _writes_blocks(model, layer, blocked):
            blocked.update(layer.outputs)
    tensors = {
        name: replace(spec, layout=PLAIN)
        if name not in model.weights
        and name not in blocked
        and spec.is_static
        and may_be_blocked(spec)
        else spec
        for name, spec in model.tensors.items()
    }
    return replace(model, tensors=tensors)


def _writes_blocks(model: Model, layer: Layer, blocked: set[str]) -> bool:
    first = layer.outputs[0]  # nobody may want it: of an LSTM, only the last state
    if layer.domain or not first or not may_be_blocked(model.tensors[first]):
        return False
    if layer.op in _BLOCKING:
        return True
    if layer.op in _KEEPING:
        # GELU by way of the hyperbolic tangent is lowered to several operators.
        exact = layer.attributes.get("approximate", "none") == "none"
        return exact and layer.inputs[0] in blocked
    return (
        layer.op in _KEEPING_ALL
        and layer.attributes.get("axis", 1) == 1
        and all(name in blocked for name in layer.inputs)
        and (layer.op == "Concat" or len({model.tensors[n].shape for n in layer.inputs}) == 1)
    )
