"""Layers of old operator sets give the same results in canonical form.

Where the reference evaluator knows no old definition, numpy says what is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import CanonicalModel, read_model
from dlbricks_core.passes import normalize

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4, 5)).astype(np.float32)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def one_layer(
    op: str,
    opset: int,
    inputs: list[np.ndarray[Any, Any]],
    weights: list[np.ndarray[Any, Any] | None],
    outputs: int = 1,
    attributes: dict[str, Any] | None = None,
) -> tuple[ModelProto, dict[str, Any]]:
    """A model of one layer that reads inputs first, then weights."""
    fed = {f"x{i}": value for i, value in enumerate(inputs)}
    held = {f"w{i}": value for i, value in enumerate(weights) if value is not None}
    names = [*fed, *(f"w{i}" if value is not None else "" for i, value in enumerate(weights))]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **(attributes or {}))],
        "layer",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype),
                                       value.shape) for name, value in fed.items()],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), fed


def flat_softmax(x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
    powers = np.exp(flat - flat.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).reshape(x.shape)


def flat_hardmax(x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
    return np.eye(flat.shape[1], dtype=x.dtype)[flat.argmax(axis=1)].reshape(x.shape)


def stretched(x: np.ndarray[Any, Any], factor: float) -> np.ndarray[Any, Any]:
    """Linear interpolation of the last axis, sample i at i / factor."""
    size = x.shape[-1]
    at = np.minimum(np.arange(int(size * factor)) / factor, size - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, size - 1)
    return (x[..., low] * (1 - (at - low)) + x[..., high] * (at - low)).astype(x.dtype)


SCALES = np.array([1, 1, 2, 3], dtype=np.float32)
NEAREST = X.repeat(2, axis=2).repeat(3, axis=3)
STATISTICS = [f32(3), f32(3), f32(3), np.abs(f32(3)) + 0.1]
NORMALIZED = (X - STATISTICS[2][:, None, None]) / np.sqrt(
    STATISTICS[3][:, None, None] + 1e-5
) * STATISTICS[0][:, None, None] + STATISTICS[1][:, None, None]
GROUPS = X.reshape(1, 6, 4, 5)
GROUP_SCALES, GROUP_BIASES = f32(2), f32(2)


def grouped() -> np.ndarray[Any, Any]:
    parts = GROUPS.reshape(1, 2, -1)
    normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)
    return (normal * GROUP_SCALES[:, None] + GROUP_BIASES[:, None]).reshape(GROUPS.shape)


def scattered() -> np.ndarray[Any, Any]:
    result = X[0, 0].copy()
    np.put_along_axis(result, np.array([[1, 0, 3, 2, 1]]), np.ones((1, 5), np.float32), axis=0)
    return result


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


# name: operator, opset, inputs, weights, number of outputs, attributes, expected results
CASES: dict[str, tuple[str, int, list[Any], list[Any], int, dict[str, Any], list[Any] | None]] = {
    "clip": ("Clip", 7, [X], [], 1, {"min": -0.5, "max": 0.5}, None),
    "clip one side": ("Clip", 6 + 1, [X], [], 1, {"min": 0.0}, [np.maximum(X, 0)]),
    "clip no side": ("Clip", 10, [X], [], 1, {}, [X]),
    "pad": ("Pad", 7, [X], [], 1, {"pads": [0, 0, 1, 2, 0, 0, 3, 4], "value": 0.5}, None),
    "pad reflect": ("Pad", 9, [X], [], 1,
                    {"pads": [0, 0, 1, 2, 0, 0, 3, 1], "mode": "reflect"}, None),
    "slice": ("Slice", 7, [X], [], 1, {"starts": [1, -3], "ends": [9, -1], "axes": [2, -1]}, None),
    "slice leading": ("Slice", 9, [X], [], 1, {"starts": [0, 1], "ends": [1, 3]}, [X[:1, 1:3]]),
    "slice back": ("Slice", 10, [X], [ints(-1), ints(-99), ints(3), ints(-2)], 1, {},
                   [X[..., ::-2]]),
    "squeeze": ("Squeeze", 7, [X[:1]], [], 1, {"axes": [0]}, None),
    "squeeze negative": ("Squeeze", 11, [X[:1]], [], 1, {"axes": [-4]}, [X[0]]),
    "squeeze all": ("Squeeze", 7, [X[:1, :1]], [], 1, {}, [X[0, 0]]),
    "unsqueeze": ("Unsqueeze", 7, [X], [], 1, {"axes": [2, 0]}, [X[None, :, None]]),
    "split": ("Split", 7, [X], [], 2, {"split": [1, 2], "axis": 1}, None),
    "split evenly": ("Split", 11, [X], [], 2, {"axis": -2}, [X[:, :, :2], X[:, :, 2:]]),
    "split by number": ("Split", 18, [X], [], 2, {"axis": 3, "num_outputs": 2},
                        [X[..., :3], X[..., 3:]]),
    "topk": ("TopK", 7, [X], [], 2, {"k": 2}, None),
    "topk input": ("TopK", 10, [X], [ints(3)], 2, {"axis": 1}, None),
    "dropout": ("Dropout", 7, [X], [], 1, {"ratio": 0.3}, [X]),
    "dropout mask": ("Dropout", 10, [X], [], 2, {}, [X, np.ones_like(X, dtype=bool)]),
    "batch normalization": ("BatchNormalization", 7, [X], STATISTICS, 1, {}, [NORMALIZED]),
    "batch normalization 9": ("BatchNormalization", 9, [X], STATISTICS, 1, {}, [NORMALIZED]),
    "upsample": ("Upsample", 7, [X], [], 1, {"scales": SCALES.tolist()}, [NEAREST]),
    "upsample input": ("Upsample", 9, [X], [SCALES], 1, {}, [NEAREST]),
    "upsample linear": ("Upsample", 9, [X], [np.array([1, 1, 1, 3], np.float32)], 1,
                        {"mode": "linear"}, [stretched(X, 3)]),
    "resize": ("Resize", 10, [X], [SCALES], 1, {}, [NEAREST]),
    "resize inexact": ("Resize", 10, [X], [np.array([1, 1, 1, 1.5], np.float32)], 1,
                       {"mode": "linear"}, [stretched(X, 1.5)]),
    "resize 11": ("Resize", 11, [X], [np.zeros(0, np.float32), SCALES], 1, {}, None),
    "resize 13": ("Resize", 13, [X], [None, None, ints(2, 3, 8, 10)], 1, {"mode": "cubic"}, None),
    "resize axes": ("Resize", 18, [X], [None, None, ints(8, 10)], 1, {"axes": [2, 3]}, None),
    "scatter": ("Scatter", 9, [X[0, 0]], [np.array([[1, 0, 3, 2, 1]]), np.ones((1, 5), np.float32)],
                1, {}, [scattered()]),
    "group normalization": ("GroupNormalization", 18, [GROUPS], [GROUP_SCALES, GROUP_BIASES], 1,
                            {"num_groups": 2}, [grouped()]),
    "dft": ("DFT", 17, [X[..., :1]], [], 1, {"axis": 2}, None),
    "dft default axis": ("DFT", 17, [X[..., :1]], [], 1, {},
                         [np.stack([(z := np.fft.fft(X[..., 0], axis=1)).real, z.imag], -1)]),
    "gemm": ("Gemm", 7, [f32(2, 3)], [f32(3, 4), f32(4)], 1, {"alpha": 0.5}, "gemm"),
    "lrn": ("LRN", 7, [X], [], 1, {"size": 3}, None),
    "one hot": ("OneHot", 9, [np.array([1, -2, 0])], [np.array([4.0], np.float32),
                np.array([0, 1], np.float32)], 1, {"axis": -1}, None),
    "cast": ("Cast", 7, [X], [], 1, {"to": 6}, None),
    "constant of shape": ("Expand", 8, [X], [ints(2, 1, 1, 1, 1)], 1, {}, None),
    "flatten": ("Flatten", 7, [X], [], 1, {"axis": 2}, None),
    "average pool": ("AveragePool", 7, [X], [], 1,
                     {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]}, None),
    "max pool": ("MaxPool", 10, [X], [], 1,
                 {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]}, None),
    "conv same": ("Conv", 7, [X], [f32(4, 3, 2, 3)], 1, {"auto_pad": "SAME_UPPER"}, None),
    "conv same strided": ("Conv", 7, [X], [f32(4, 3, 3, 3)], 1,
                          {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, None),
    "conv transpose": ("ConvTranspose", 7, [X], [f32(3, 2, 3, 3)], 1,
                       {"strides": [2, 2], "output_shape": [8, 10]}, "cropped"),
    "conv transpose same": ("ConvTranspose", 11, [X], [f32(3, 2, 3, 3)], 1,
                            {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, None),
    "sum": ("Sum", 7, [X, X[:, :1]], [], 1, {}, [X + X[:, :1]]),
    "mean variance": ("MeanVarianceNormalization", 9, [X], [], 1, {}, None),
}  # fmt: skip
for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
    CASES[f"reduce {kind}"] = (f"Reduce{kind}", 7, [np.abs(X)], [], 1, {"axes": [3, 1]}, None)
    CASES[f"reduce {kind} all"] = (f"Reduce{kind}", 11, [np.abs(X)], [], 1, {"keepdims": 0}, None)
for axis in (0, 1, 2, 3):
    CASES[f"softmax {axis}"] = ("Softmax", 7, [X], [], 1, {"axis": axis}, [flat_softmax(X, axis)])
    CASES[f"log softmax {axis}"] = ("LogSoftmax", 11, [X], [], 1, {"axis": axis},
                                    [np.log(flat_softmax(X, axis))])  # fmt: skip
    CASES[f"hardmax {axis}"] = ("Hardmax", 11, [X], [], 1, {"axis": axis}, [flat_hardmax(X, axis)])


@pytest.mark.parametrize("name", CASES)
def test_layers_of_old_opsets_compute_the_same(
    name: str, compared: Callable[..., CanonicalModel]
) -> None:
    op, opset, inputs, weights, outputs, attributes, expected = CASES[name]
    proto, fed = one_layer(op, opset, inputs, weights, outputs, attributes)
    if expected == "gemm":
        expected = [0.5 * inputs[0] @ weights[0] + weights[1]]
    if expected == "cropped":
        proto_of_all, _ = one_layer(op, opset, inputs, weights, outputs, {"strides": [2, 2]})
        (whole,) = ReferenceEvaluator(proto_of_all).run(None, fed)
        expected = [whole[:, :, 1:, 1:]]
    normal = compared(proto, fed, expected)
    assert normal.opsets[""] == 21


@pytest.mark.parametrize(
    ("mode", "canonical"), [("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")]
)
def test_grid_sample_modes_have_their_new_names(mode: str, canonical: str) -> None:
    proto, _ = one_layer("GridSample", 16, [X], [f32(2, 6, 6, 2)], 1, {"mode": mode})
    (layer,) = normalize(read_model(proto, name="m")).layers
    assert layer.attributes["mode"] == canonical


def test_roi_align_keeps_its_old_sample_points() -> None:
    rois, batch = f32(4, 4), np.zeros(4, dtype=np.int64)
    for opset, mode in ((10, "output_half_pixel"), (16, "half_pixel")):
        proto, _ = one_layer("RoiAlign", opset, [X], [rois, batch])
        (layer,) = normalize(read_model(proto, name="m")).layers
        assert layer.attributes["coordinate_transformation_mode"] == mode


@pytest.mark.parametrize("opset", [7, 14, 22])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_defaults_are_written(op: str, gates: int, opset: int) -> None:
    x, w, r = f32(5, 2, 3), f32(1, gates * 4, 3), f32(1, gates * 4, 4)
    lengths = np.array([5, 5], dtype=np.int32)
    proto, _ = one_layer(op, opset, [x], [w, r, None, lengths], 2, {"hidden_size": 4})
    (layer,) = normalize(read_model(proto, name="m")).layers
    assert layer.attributes["direction"] == "forward"
    assert layer.attributes["layout"] == 0
    assert len(layer.attributes["activations"]) == {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    assert len(layer.inputs) == 3  # all steps of every sequence is what no lengths mean


def test_training_mode_is_opaque() -> None:
    proto, _ = one_layer("BatchNormalization", 9, [X], STATISTICS, 5)
    (layer,) = normalize(read_model(proto, name="m")).layers
    assert "training mode" in layer.opaque


def test_statistics_for_each_position_are_opaque() -> None:
    wide = [value[:, None, None] * np.ones((3, 4, 5), np.float32) for value in STATISTICS]
    proto, _ = one_layer("BatchNormalization", 7, [X], wide, 1, {"spatial": 0})
    normal = normalize(read_model(proto, name="m"))
    assert "spatial=0" in normal.layers[0].opaque
    assert normal.tensors["y0"].sizes == X.shape


def test_removed_resize_mode_is_opaque() -> None:
    proto, _ = one_layer("Resize", 11, [X], [np.zeros(0, np.float32), SCALES], 1,
                         {"coordinate_transformation_mode": "tf_half_pixel_for_nn"})  # fmt: skip
    normal = normalize(read_model(proto, name="m"))
    assert "tf_half_pixel_for_nn" in normal.layers[0].opaque


def test_opset_before_seven_is_refused() -> None:
    proto, _ = one_layer("Relu", 6, [X], [])
    with pytest.raises(ModelError, match="opset 6"):
        read_model(proto, name="m")
