"""Whole networks: the nine of the onnx package, and small ones built here."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from dlbricks_core.ir import CanonicalModel, read_model
from dlbricks_core.passes import normalize

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
LAYERS = {
    "light_bvlc_alexnet": 22,
    "light_densenet121": 668,
    "light_inception_v1": 142,
    "light_inception_v2": 371,
    "light_resnet50": 176,
    "light_shufflenet": 203,
    "light_squeezenet": 65,
    "light_vgg19": 44,
    "light_zfnet512": 22,
}

#: Models that the reference evaluator computes for seconds.
LONG = {"test_MaxPool1d_stride_padding_dilation", "test_MaxPool2d_stride_padding_dilation"}


def light(name: str) -> CanonicalModel:
    return read_model(onnx.load(DATA / "light" / f"{name}.onnx"), name=name)


@pytest.mark.parametrize("name", LAYERS)
def test_light_networks_are_canonical(name: str) -> None:
    raw = light(name)
    normal = normalize(raw)
    assert len(normal.layers) == LAYERS[name]
    assert not any(layer.opaque for layer in normal.layers)
    assert all(spec.is_static for spec in normal.tensors.values())
    assert (normal.inputs, normal.outputs) == (raw.inputs, raw.outputs)
    ops = Counter(layer.op for layer in normal.layers)
    assert not ops.keys() & {"Dropout", "Identity", "ConstantOfShape", "Constant"}
    assert ops["BatchNormalization"] == sum(x.op == "BatchNormalization" for x in raw.layers)
    again = normalize(normal.as_raw())
    assert again.layers == normal.layers
    assert again.tensors == normal.tensors
    assert again.weights == normal.weights


def test_resnet_keeps_what_costs_time() -> None:
    ops = Counter(layer.op for layer in normalize(light("light_resnet50")).layers)
    assert ops == {"Conv": 53, "BatchNormalization": 53, "Relu": 49, "Sum": 16, "MaxPool": 1,
                   "AveragePool": 1, "Reshape": 1, "Gemm": 1, "Softmax": 1}  # fmt: skip


def test_normal_model_can_be_sent_to_another_process() -> None:
    normal = normalize(light("light_squeezenet"))
    assert pickle.loads(pickle.dumps(normal)).layers == normal.layers


def test_fold_batchnorm_leaves_convolutions_with_bias() -> None:
    normal = normalize(light("light_resnet50"), fold_batchnorm=True)
    ops = Counter(layer.op for layer in normal.layers)
    assert ops["BatchNormalization"] == 0
    assert len(normal.layers) == 176 - 53
    for layer in normal.layers:
        if layer.op == "Conv":
            assert (
                normal.tensors[layer.inputs[2]].sizes == normal.tensors[layer.inputs[1]].sizes[:1]
            )
            assert layer.inputs[2] in normal.weights
    assert normalize(normal.as_raw()).layers == normal.layers


def test_fold_batchnorm_leaves_results_that_other_layers_read() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 15]>
        g (float[1,3,8,8] x) => (float[1,4,8,8] z, float[1,4,8,8] c)
        <float[4,3,1,1] w, float[4] s, float[4] b, float[4] m, float[4] v>
        { c = Conv(x, w)  z = BatchNormalization(c, s, b, m, v) }
    """)
    for name, shape in {"w": (4, 3, 1, 1), "s": (4,), "b": (4,), "m": (4,), "v": (4,)}.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    normal = normalize(read_model(proto, name="m"), fold_batchnorm=True)
    assert [layer.op for layer in normal.layers] == ["Conv", "BatchNormalization"]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.long) if path.parent.name in LONG else path
        for folder in ("simple", "pytorch-converted", "pytorch-operator")
        for path in sorted((DATA / folder).glob("*/model.onnx"))
    ],
    ids=lambda path: path.parent.name,
)
def test_shipped_models_compute_the_same(
    path: Path, compared: Callable[..., CanonicalModel]
) -> None:
    proto = onnx.load(path)
    if {opset.domain: opset.version for opset in proto.opset_import}.get("", 0) < 7:
        proto = onnx.version_converter.convert_version(proto, 7)
    if any(word in path.parent.name for word in ("gradient", "sequence_model8", "strnorm")):
        dims = {"n": 3} if "sequence" in path.parent.name else {}
        normal = normalize(read_model(proto, name="m"), dims=dims)
        assert any(layer.opaque or layer.domain for layer in normal.layers)
        return
    data = path.parent / "test_data_set_0"
    held = {tensor.name for tensor in proto.graph.initializer}
    names = [info.name for info in proto.graph.input if info.name not in held]
    inputs = {name: load(data / f"input_{i}.pb") for i, name in enumerate(names)}
    expected = [load(data / f"output_{i}.pb") for i in range(len(proto.graph.output))]
    compared(proto, inputs, expected)


def load(path: Path) -> np.ndarray[Any, Any]:
    return numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


ATTENTION = """
<ir_version: 8, opset_import: ["" : 13]>
block (float[batch,seq,16] x) => (float[batch,seq,16] y)
{
    zero = Constant<value_ints=[0]>()
    one = Constant<value_ints=[1]>()
    heads = Constant<value_ints=[4]>()
    rest = Constant<value_ints=[-1]>()
    width = Constant<value_ints=[16]>()
    shape = Shape(x)
    b = Slice(shape, zero, one)
    two = Constant<value_ints=[2]>()
    s = Slice(shape, one, two)
    split = Concat<axis=0>(b, s, heads, rest)
    scale = Constant<value_float=0.5>()
    wide = MatMul(x, w)
    dropped = Dropout(wide)
    parts = Reshape(dropped, split)
    q = Transpose<perm=[0,2,1,3]>(parts)
    k = Transpose<perm=[0,2,3,1]>(parts)
    scores = MatMul(q, k)
    scaled = Mul(scores, scale)
    weights = Softmax<axis=-1>(scaled)
    mixed = MatMul(weights, q)
    back = Transpose<perm=[0,2,1,3]>(mixed)
    merged = Concat<axis=0>(b, s, width)
    flat = Reshape(back, merged)
    y = Identity(flat)
}
"""


def attention() -> ModelProto:
    proto = onnx.parser.parse_model(ATTENTION)
    weight = np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return proto


@pytest.mark.parametrize(("batch", "seq"), [(1, 7), (3, 2)])
def test_shape_arithmetic_folds_away(
    batch: int, seq: int, compared: Callable[..., CanonicalModel]
) -> None:
    x = np.random.default_rng(2).standard_normal((batch, seq, 16)).astype(np.float32)
    normal = compared(attention(), {"x": x}, batch=batch, dims={"seq": seq})
    assert [layer.op for layer in normal.layers] == [
        "MatMul", "Reshape", "Transpose", "Transpose", "MatMul", "Mul", "Softmax", "MatMul",
        "Transpose", "Reshape",
    ]  # fmt: skip
    assert normal.tensors["x"].sizes == (batch, seq, 16)
    assert normal.outputs == ("y",)


def test_large_external_weights_are_not_read(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[50_000, 50_000])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="absent.bin")
    graph = helper.make_graph(
        [
            helper.make_node("Transpose", ["w"], ["t"]),
            helper.make_node("MatMul", ["x", "t"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 50_000])],
        [helper.make_empty_tensor_value_info("y")],
        [weight],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    normal = normalize(read_model(proto, name="large", base_dir=tmp_path))
    assert [layer.op for layer in normal.layers] == ["MatMul"]
    assert normal.weights == {"t"}
    assert normal.tensors["t"].sizes == (50_000, 50_000)
    assert not normal.constants


def test_quantized_weights_stay(compared: Callable[..., CanonicalModel]) -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 19]>
        g (float[2,4] x) => (float[2,4] y)
        <float scale = {0.5}, uint8 zero = {3}>
        { w = DequantizeLinear(q, scale, zero)  t = Transpose(w)  y = MatMul(x, t) }
    """)
    quantized = np.arange(16, dtype=np.uint8).reshape(4, 4)
    proto.graph.initializer.append(numpy_helper.from_array(quantized, "q"))
    x = np.ones((2, 4), np.float32)
    normal = compared(proto, {"x": x}, ReferenceEvaluator(proto).run(None, {"x": x}))
    assert [layer.op for layer in normal.layers] == ["DequantizeLinear", "Transpose", "MatMul"]


def test_four_bit_weights_fold_without_their_values() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[2,4] x) => (float[2,6] y)
        <float scale = {0.5}>
        { t = Transpose(q)  w = DequantizeLinear(t, scale)  y = MatMul(x, w) }
    """)
    weight = helper.make_tensor("q", TensorProto.INT4, [6, 4], np.arange(24) % 8)
    proto.graph.initializer.append(weight)
    normal = normalize(read_model(proto, name="m"))
    assert [layer.op for layer in normal.layers] == ["DequantizeLinear", "MatMul"]
    assert str(normal.tensors["t"]) == "int4[4x6]"
    assert (
        normal.constants["t"].astype(int).tolist() == (np.arange(24) % 8).reshape(6, 4).T.tolist()
    )
