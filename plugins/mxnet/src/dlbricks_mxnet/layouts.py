"""Memory layouts in which MXNet hands feature maps from layer to layer."""

from __future__ import annotations

from dlbricks_core.ir import CanonicalModel, TensorSpec

PLAIN = "plain"
"""Plain layout of a tensor that convolutions might have left in blocks."""

UNKNOWN = ""
"""Layout of a tensor that comes from a convolution, where it cannot be determined."""

LAST = "acdb"
"""oneDNN's name of the layout with channels along the last axis."""


def blocks_of(channels: int) -> str:
    """Layout with blocks of a number of channels, by oneDNN's name."""
    return f"aBcd{channels}b"


_BLOCK = 8
_RANKS_WITH_BLOCKS = (4, 5)
"""Channels in a block, and ranks of tensors whose layout may have blocks."""

#: Operators whose results oneDNN writes in a layout of its own choice.
BLOCKING = frozenset({"Conv", "ConvTranspose"})
#: Operators whose results are in plain order, whatever the layout of their inputs.
_MOVING = frozenset(
    {"Expand", "Flatten", "Gather", "MatMul", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
     "Unsqueeze"}
)  # fmt: skip
#: Operators that crash MXNet 1.9.1 if they read blocks and work along the last axis.
_CRASHING = frozenset({"LogSoftmax", "Softmax"})


def may_be_blocked(spec: TensorSpec) -> bool:
    """Whether convolutions leave such a tensor in blocks of channels."""
    return spec.dtype == "float32" and spec.rank == 4 and spec.sizes[1] % _BLOCK == 0


def fed_layout(model: CanonicalModel, name: str) -> str:
    """Layout in which an input of a brick is fed."""
    spec = model.tensors[name]
    readers = {model.layers[index].op for index in model.consumers.get(name, ())}
    return PLAIN if not may_be_blocked(spec) or readers & _CRASHING else spec.layout


def comes_in_blocks(model: CanonicalModel, name: str) -> bool:
    """Whether a tensor may be in blocks: all layers since a convolution keep the layout."""
    waiting, seen = [name], set[str]()
    while waiting:
        current = waiting.pop()
        spec, producer = model.tensors[current], model.producers.get(current)
        plain = spec.rank not in _RANKS_WITH_BLOCKS or spec.dtype != "float32"
        if producer is None or plain or current in seen:
            continue
        seen.add(current)
        layer = model.layers[producer]
        if layer.op in BLOCKING:
            return True
        if layer.op not in _MOVING:
            waiting += filter(None, layer.inputs)
    return False
