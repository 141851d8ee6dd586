"""Normalizations of OpenVINO, in ONNX."""

from __future__ import annotations

import numpy as np

from dlbricks_openvino.files.building import Operation


def batch_norm(operation: Operation) -> str:
    """A normalization with known mean and variance."""
    if operation.node.get_type_info().version_id == "opset1":
        raise operation.refuse("its order of inputs is that of 2020")
    return operation.add(
        "BatchNormalization", *operation.inputs, epsilon=operation.attributes["epsilon"]
    )


def mvn(operation: Operation) -> str:
    """A normalization by the mean and, if asked for, by the deviation along axes."""
    rank = operation.rank()
    axes = sorted(int(axis) % rank for axis in np.ravel(operation.known(1)))
    sizes, epsilon = operation.shape(), float(operation.attributes["eps"])
    varied = bool(operation.attributes["normalize_variance"])
    inside = str(operation.attributes["eps_mode"]).lower() == "inside_sqrt"
    behind = [sizes[axis] for axis in axes]
    x, where = operation.inputs[0], operation.integers(*axes)
    if varied and inside and axes == list(range(axes[0], rank)) and None not in behind:
        ones = np.ones([size or 0 for size in behind])
        return operation.add(
            "LayerNormalization", x, operation.like(0, ones), axis=axes[0], epsilon=epsilon
        )
    centred = operation.add("Sub", x, operation.add("ReduceMean", x, where))
    if not varied:
        return centred
    variance = operation.add("ReduceMean", operation.add("Mul", centred, centred), where)
    if inside:
        variance = operation.add("Add", variance, operation.like(0, epsilon))
    deviation = operation.add("Sqrt", variance)
    if not inside:
        deviation = operation.add("Add", deviation, operation.like(0, epsilon))
    return operation.add("Div", centred, deviation)


def normalize_l2(operation: Operation) -> str:
    """Elements over the length of their vector."""
    x, where, epsilon = operation.inputs[0], operation.int64(1), operation.attributes["eps"]
    total = operation.add("ReduceSumSquare", x, where)
    op = "Add" if operation.attributes["eps_mode"] == "add" else "Max"
    return operation.add(
        "Div", x, operation.add("Sqrt", operation.add(op, total, operation.like(0, epsilon)))
    )


def lrn(operation: Operation) -> str:
    """A normalization across neighbouring channels."""
    if np.ravel(operation.known(1)).tolist() != [1]:
        raise operation.refuse("ONNX normalizes across channels only")
    names = ("alpha", "beta", "bias", "size")
    return operation.add("LRN", operation.inputs[0], **{n: operation.attributes[n] for n in names})


def group_norm(operation: Operation) -> str:
    """A normalization of groups of channels."""
    given = {
        "num_groups": operation.attributes["num_groups"],
        "epsilon": operation.attributes["epsilon"],
    }
    return operation.add("GroupNormalization", *operation.inputs, **given)
