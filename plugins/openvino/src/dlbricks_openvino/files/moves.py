"""Operations of OpenVINO that move elements, in ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from dlbricks_openvino.files.building import Operation, Rule


def reshape(operation: Operation) -> str:
    """Another shape for the same elements."""
    zero_is_zero = None if operation.attributes["special_zero"] else 1
    return operation.add("Reshape", operation.inputs[0], operation.int64(1), allowzero=zero_is_zero)


def transpose(operation: Operation) -> str:
    """Axes in another order."""
    order = [int(axis) for axis in np.ravel(operation.known(1))]
    return operation.add("Transpose", operation.inputs[0], perm=order or None)


def with_places(op: str) -> Rule:
    """An operator whose second input is axes, sizes or repetitions."""

    def rule(operation: Operation) -> str:
        x, *others = operation.inputs
        return operation.add(op, x, *([operation.int64(1)] if others else []))

    return rule


def broadcast(operation: Operation) -> str:
    """Elements repeated along axes."""
    if operation.attributes["mode"] not in ("numpy", "bidirectional"):
        raise operation.refuse("it states the axes to broadcast along")
    return operation.add("Expand", operation.inputs[0], operation.int64(1))


def split(operation: Operation) -> Sequence[str]:
    """Parts along one axis, of equal or of given lengths."""
    count = len(operation.node.outputs())
    axis = int(operation.known(1).item())
    if len(operation.inputs) == 2:
        return operation.several(
            "Split", operation.inputs[0], results=count, axis=axis, num_outputs=count
        )
    lengths = [int(length) for length in np.ravel(operation.known(2))]
    if -1 in lengths:  # the rest
        size = operation.shape()[axis]
        if size is None:
            raise operation.refuse("the length of one of its parts is open")
        lengths[lengths.index(-1)] = size - sum(lengths) - 1
    return operation.several(
        "Split", operation.inputs[0], operation.integers(*lengths), results=count, axis=axis
    )


def gather(operation: Operation) -> str:
    """Entries along one axis."""
    if operation.attributes.get("batch_dims", 0):
        raise operation.refuse("it has axes of batches")
    axis = int(operation.known(2).item())
    return operation.add("Gather", *operation.inputs[:2], axis=axis)


def scatter_update(operation: Operation) -> str:
    """Entries along the first axis replaced by others."""
    x, places, values, _ = operation.inputs
    if int(operation.known(3).item()) != 0 or operation.rank(1) != 1:
        raise operation.refuse("ONNX replaces whole entries along the first axis only")
    places = operation.add("Cast", places, to=TensorProto.INT64)
    rows = operation.add("Unsqueeze", places, operation.integers(-1))
    return operation.add("ScatterND", x, rows, values)


_REDUCED = {"sum": "add", "prod": "mul", "min": "min", "max": "max"}


def scatter(op: str) -> Rule:
    """Elements at places replaced by others, or reduced with them."""

    def rule(operation: Operation) -> str:
        x, places, values, *axis = operation.inputs
        reduction = str(operation.attributes.get("reduction", "none"))
        if reduction not in ("none", *_REDUCED) or not operation.attributes.get(
            "use_init_val", True
        ):
            raise operation.refuse(f"ONNX has no reduction {reduction} of this kind")
        where = int(operation.known(3).item()) if axis else None
        places = operation.add("Cast", places, to=TensorProto.INT64)
        return operation.add(op, x, places, values, axis=where, reduction=_REDUCED.get(reduction))

    return rule


def gather_nd(operation: Operation) -> str:
    """Entries at places along several axes."""
    x, places = operation.inputs
    places = operation.add("Cast", places, to=TensorProto.INT64)
    return operation.add("GatherND", x, places, batch_dims=operation.attributes["batch_dims"])


_PADS = {"constant": "constant", "edge": "edge", "reflect": "reflect"}


def pad(operation: Operation) -> str:
    """Further elements at both ends of axes."""
    mode = str(operation.attributes["pad_mode"]).lower()
    if mode not in _PADS:
        raise operation.refuse(f"ONNX does not pad in the mode {mode}")
    sizes = operation.add("Concat", operation.int64(1), operation.int64(2), axis=0)
    filled = operation.inputs[3:] if mode == "constant" else []
    return operation.add("Pad", operation.inputs[0], sizes, *filled, mode=_PADS[mode])


def shuffle_channels(operation: Operation) -> str:
    """Entries of groups in turn."""
    rank, group = operation.rank(), int(operation.attributes["group"])
    axis = int(operation.attributes["axis"]) % rank
    sizes = [size or 0 for size in operation.shape()]
    if 0 in sizes:
        raise operation.refuse("its sizes are open")
    parted = [*sizes[:axis], group, sizes[axis] // group, *sizes[axis + 1 :]]
    order = [*range(axis), axis + 1, axis, *range(axis + 2, rank + 1)]
    split = operation.add("Reshape", operation.inputs[0], operation.integers(*parted))
    turned = operation.add("Transpose", split, perm=order)
    return operation.add("Reshape", turned, operation.integers(*sizes))


def depth_to_space(operation: Operation) -> str:
    """Channels moved into rows and columns."""
    mode = "DCR" if operation.attributes["mode"] == "blocks_first" else "CRD"
    return operation.add(
        "DepthToSpace", operation.inputs[0], mode=mode, blocksize=operation.attributes["block_size"]
    )


def space_to_depth(operation: Operation) -> str:
    """Rows and columns moved into channels."""
    if operation.attributes["mode"] != "blocks_first":
        raise operation.refuse("ONNX puts blocks first")
    return operation.add(
        "SpaceToDepth", operation.inputs[0], blocksize=operation.attributes["block_size"]
    )


def roll(operation: Operation) -> str:
    """Entries moved along axes; those past the end come first."""
    name = operation.inputs[0]
    shifts, axes = np.ravel(operation.known(1)), np.ravel(operation.known(2))
    for shift, axis in zip(
        np.broadcast_to(shifts, axes.shape).tolist(), axes.tolist(), strict=True
    ):
        if shift:
            at, where = operation.integers(-shift), operation.integers(axis)
            ends = operation.integers(np.iinfo(np.int64).max)
            last = operation.add("Slice", name, at, ends, where)
            first = operation.add("Slice", name, operation.integers(0), at, where)
            name = operation.add("Concat", last, first, axis=axis)
    return name


def reverse_sequence(operation: Operation) -> str:
    """Sequences of different lengths, each turned around."""
    x, _ = operation.inputs
    given = operation.attributes
    return operation.add(
        "ReverseSequence",
        x,
        operation.int64(1),
        batch_axis=given["batch_axis"],
        time_axis=given["seq_axis"],
    )
