"""Texts: those that are constant are computed, layers that work on others are named."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import ModelError
from dlbricks_core.ir import CanonicalModel, read_model, to_onnx
from dlbricks_core.ir.attributes import tensor_array, tensor_value
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

TEXT = "works on text, which is not timed"


def normal(nodes, outputs, inputs=(), constants=None, opset=20, **options) -> CanonicalModel:
    values = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        values,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return normalize(read_model(helper.make_model(graph, opset_imports=opsets), name="m"))


@pytest.mark.parametrize(("number", "text"), [
    (np.array([3]), ["3"]),
    (np.array([1.5], np.float32), ["1.5"]),
    (np.array([0.1], np.float16), ["0.1"]),
    (np.array([400_000_000]), ["400000000"]),
    (np.array([[-7], [2**62]]), [["-7"], [str(2**62)]]),
    (np.array([True, False]), ["1", "0"]),
    (np.array([np.nan, np.inf, -np.inf]), ["NaN", "INF", "-INF"]),
    (np.array([], np.int64), []),
    (np.array(8, np.uint8), "8"),
])  # fmt: skip
def test_a_constant_number_can_be_cast_to_text(number: np.ndarray, text: object) -> None:
    cast = helper.make_node("Cast", ["v"], ["t"], to=TensorProto.STRING)
    relu = helper.make_node("Relu", ["x"], ["y"])
    model = normal([relu, cast], ["y", "t"], [("x", TensorProto.FLOAT, [2])], {"v": number})
    assert [layer.op for layer in model.layers] == ["Relu"]
    assert model.constants["t"].tolist() == text
    assert str(model.tensors["t"]).startswith("string[")
    written = to_onnx(model, dict(model.constants))
    onnx.checker.check_model(written)


def test_the_text_of_a_number_is_joined_to_another() -> None:
    nodes = [
        helper.make_node("Cast", ["v"], ["t"], to=TensorProto.STRING),
        helper.make_node("StringConcat", ["prefix", "t"], ["version"]),
        helper.make_node("Cast", ["digits"], ["shape"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"v": np.array([3]), "prefix": np.array(["v"], object),
                 "digits": np.array(["3", "2"], object)}  # fmt: skip
    model = normal(nodes, ["y", "version"], [("x", TensorProto.FLOAT, [6])], constants)
    assert model.constants["version"].tolist() == ["v3"]
    assert model.tensors["y"].sizes == (3, 2)


def test_a_text_that_is_no_number_has_no_value() -> None:
    nodes = [
        helper.make_node("Cast", ["word"], ["n"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "n"], ["y"]),
    ]
    word = {"word": np.array(["three"], object)}
    model = normal(nodes, ["y"], [("x", TensorProto.FLOAT, [2])], word)
    assert model.tensors["y"].sizes == (2,)


@pytest.mark.parametrize("texts", [["a\0b", ""], ["", ""], ["ünï", "卷积"], []])
def test_any_constant_text_is_kept(texts: list[str]) -> None:
    array = np.array(texts, dtype=object)
    assert tensor_array(tensor_value(array)).tolist() == texts


CITIES = helper.make_node("LabelEncoder", ["city"], ["i"], domain="ai.onnx.ml",
                          keys_strings=["rome", "oslo"], values_int64s=[0, 1])  # fmt: skip
LABELS = helper.make_node("LinearClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml",
                          coefficients=[0.1] * 6, intercepts=[0.1, 0.2], multi_class=0,
                          classlabels_strings=["ham", "spam"])  # fmt: skip


def test_layers_around_those_that_work_on_text_are_timed() -> None:
    nodes = [
        CITIES,
        helper.make_node("Gather", ["emb", "i"], ["x"]),
        LABELS,
        helper.make_node("Tanh", ["p"], ["y"]),
        helper.make_node("Identity", ["city"], ["same"]),
        helper.make_node("RegexFullMatch", ["city"], ["match"], pattern="r.*"),
    ]
    inputs = [("city", TensorProto.STRING, [4]), ("unused", TensorProto.STRING, [2])]
    outputs = ["y", "label", "same", "match"]
    model = normal(nodes, outputs, inputs, {"emb": np.zeros((2, 3), np.float32)})
    assert {layer.op: layer.opaque for layer in model.layers} == {
        "LabelEncoder": TEXT, "Gather": "", "LinearClassifier": TEXT, "Tanh": "",
        "Identity": TEXT, "RegexFullMatch": TEXT,
    }  # fmt: skip
    for granularity in (1, 4):
        for brick in BrickSet.of([model], granularity, "segments").bricks.values():
            if not brick.opaque:
                materialize(brick.model)
                texts = [n for n, spec in brick.model.tensors.items() if spec.dtype == "string"]
                assert not texts


def test_a_text_that_no_layer_reads_is_empty() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    inputs = [("x", TensorProto.FLOAT, [2]), ("unused", TensorProto.STRING, [2])]
    network = materialize(normal([relu], ["y"], inputs))
    assert network.inputs["unused"].tolist() == ["", ""]


def test_a_pattern_is_never_tried_on_constants() -> None:
    match = helper.make_node("RegexFullMatch", ["t"], ["m"], pattern="(a+)+b")
    cast = helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT)
    model = normal([match, cast], ["y"], constants={"t": np.array(["a" * 60], object)})
    assert model.layers[0].opaque == TEXT


@pytest.mark.parametrize(
    ("opset", "pads", "refused"),
    [(20, {}, False), (7, {"pads": [0, 1], "value": 0.5}, True)],
    ids=["by default", "with a number"],
)
def test_texts_are_padded_with_texts(opset: int, pads: dict, refused: bool) -> None:
    """The model is invalid; the suite that was written of it failed on the number zero."""
    names = ["x"] if pads else ["x", "amounts"]
    pad = helper.make_node("Pad", names, ["y"], **pads)
    inputs = [("x", TensorProto.STRING, [2]), ("amounts", TensorProto.INT64, [2])][: len(names)]
    if refused:
        with pytest.raises(ModelError, match="a number where texts are"):
            normal([pad], ["y"], inputs, opset=opset)
        return
    model = normal([pad], ["y"], inputs, opset=opset)
    ((name, value),) = model.constants.items()
    assert value.tolist() == ""
    to_onnx(model, {name: value})
