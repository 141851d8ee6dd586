"""Files that are broken, or ask for more than there is: one line that says where."""

import os
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from dlbricks_core.errors import Border, ModelError
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import read_model
from dlbricks_core.ir.functions import inlined
from dlbricks_core.ir.limits import MAX_LAYERS
from dlbricks_core.passes import normalize

NODE = helper.make_node
ADD = [helper.make_node("Add", ["x", "bias"], ["y"], name="sum")]


def model(nodes, *weights, shape=(2, 4), opset=17, functions=(), domains=()):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, list(weights))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def read(proto):
    return normalize(read_model(proto, name="m", source="net.onnx"))


def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def refused(proto, *words):
    with pytest.raises(ModelError) as caught:
        read(proto)
    message = caught.value.message
    assert "net.onnx: " in message
    assert message.count("net.onnx") == 1
    assert "\n" not in message
    assert caught.value.hint
    for word in words:
        assert word in message
    return message


BROKEN = {
    "short": ({"data_type": 1, "dims": [4], "raw_data": bytes(12)}, "have 12 bytes"),
    "long": ({"data_type": 1, "dims": [4], "raw_data": bytes(20)}, "have 20 bytes"),
    "short and large": ({"data_type": 1, "dims": [2, 4, 5000], "raw_data": bytes(12)}, "12 bytes"),
    "few": ({"data_type": 1, "dims": [4], "float_data": [1, 2]}, "have 2 numbers"),
    "none": ({"data_type": 1, "dims": [4]}, "have 0 numbers"),
    "texts": ({"data_type": 8, "dims": [4], "string_data": [b"a"]}, "have 1 texts"),
    "packed": ({"data_type": 22, "dims": [4], "raw_data": bytes(1)}, "have 1 bytes"),
    "unknown type": ({"data_type": 99, "dims": [4], "raw_data": bytes(16)}, "element type 99"),
    "no type": ({"data_type": 0, "dims": [4], "raw_data": bytes(16)}, "element type 0"),
    "negative": ({"data_type": 1, "dims": [-4], "raw_data": bytes(16)}, "negative size"),
    "huge": ({"data_type": 1, "dims": [2**40]}, "elements"),
    "overflowing": ({"data_type": 1, "dims": [2**32, 2**32]}, "elements"),
    "huge and empty": ({"data_type": 1, "dims": [0, 2**62]}, "elements"),
    "many axes": ({"data_type": 1, "dims": [1] * 70, "raw_data": bytes(4)}, "70 axes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_initializers_are_named(name):
    fields, words = BROKEN[name]
    refused(model(ADD, TensorProto(name="bias", **fields)), "tensor 'bias'", words)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_constants_are_named(name):
    fields, words = BROKEN[name]
    node = helper.make_node("Constant", [], ["bias"], value=TensorProto(**fields))
    refused(model([node, *ADD]), "'bias'", words)


@pytest.mark.parametrize("attributes", [{}, {"value_int": 1, "value_float": 1.0}, {"other": 1}])
def test_constants_with_several_values_are_refused(attributes):
    node = helper.make_node("Constant", [], ["bias"], **attributes)
    refused(model([node, *ADD]), "Constant", "'bias'")


def test_sparse_initializers_have_a_type():
    proto = model(ADD)
    sparse = proto.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(TensorProto(name="bias", dims=[1], raw_data=bytes(4)))
    refused(proto, "tensor 'bias'", "element type 0")


def test_layers_that_read_results_of_training_are_named():
    four = [constant(name, np.ones(4, np.float32)) for name in "sbmv"]
    node = NODE("BatchNormalization", ["x", *"sbmv"], ["t", "y", "z"], training_mode=0)
    refused(model([node], *four), "'y'", "not trained")


def test_large_weights_may_lack_their_data():
    weight = TensorProto(name="w", data_type=1, dims=[4, 2**34])
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], weight)
    assert read(proto).tensors["y"].sizes == (2, 2**34)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([NODE("Relu", ["y"], ["z"]), NODE("Relu", ["z"], ["y"])], "cycle"),
        ([NODE("Relu", ["x"], ["y"]), NODE("Tanh", ["x"], ["y"])], "'y' is defined twice"),
        ([NODE("Relu", ["x"], ["x"]), NODE("Tanh", ["x"], ["y"])], "'x' is defined twice"),
        ([NODE("Relu", ["x"], ["z"])], "nothing produces the output 'y'"),
        ([NODE("Relu", [], ["y"], name="r")], "layer 'r'"),
        ([NODE("Relu", ["x", "x"], ["y"], name="r")], "has 2 inputs"),
        ([NODE("Relu", [""], ["y"], name="r")], "layer 'r'"),
        ([NODE("Softmax", ["x"], ["y"], name="r", axis="last")], "Softmax is not of type INT"),
        ([NODE("Softmax", ["x"], ["y"], name="r", axis=7)], "axis 7"),
        ([NODE("Concat", ["x", "x"], ["y"], name="r")], "lacks its attribute axis"),
        ([NODE("Transpose", ["x"], ["y"], name="r", perm=[0, 0])], "layer 'r'"),
        ([NODE("Split", ["x"], ["y", "z"], name="r", axis=1, num_outputs=10**12)], "num_outputs"),
        ([NODE("LayerNormalization", ["x", "x"], ["y"], name="r", axis=2**31)], "axis 2147483648"),
        ([NODE("Cast", ["x"], ["y"], name="r", to=99)], "layer 'r'"),
    ],
)  # fmt: skip
def test_broken_layers_are_named(nodes, words):
    refused(model(nodes, opset=18), words)


def test_unsqueezed_axes_may_lie_far_behind_the_others():
    nodes = [NODE("ReduceMean", ["x"], ["m"], axes=[1], keepdims=0),
             NODE("Unsqueeze", ["m"], ["y"], axes=[1, 2, 3])]  # fmt: skip
    assert read(model(nodes, opset=11)).tensors["y"].sizes == (2, 1, 1, 1)


def test_an_ignored_axis_may_have_any_value():
    scale = constant("s", np.float32(1))
    node = NODE("QuantizeLinear", ["x", "s"], ["q"], axis=7)
    back = NODE("DequantizeLinear", ["q", "s"], ["y"], axis=7)
    assert read(model([node, back], scale)).tensors["y"].sizes == (2, 4)


def test_indices_that_crash_shape_inference_never_reach_it():
    node = NODE("GatherND", ["x", "i"], ["y"], name="r", batch_dims=-2)
    refused(model([node], constant("i", [[0, 1]])), "batch_dims", "'r'")


@pytest.mark.parametrize("kind", ["input", "initializer", "output"])
def test_names_must_not_be_empty(kind):
    proto = model(ADD, constant("bias", np.ones(4, np.float32)))
    added = getattr(proto.graph, kind).add()
    added.CopyFrom(getattr(proto.graph, kind)[0])
    added.name = ""
    refused(proto, "no name")


def test_names_that_are_not_text_are_shown_readably():
    proto = model([NODE("Relu", ["x"], ["QQQQ"], name="QQQQ"), NODE("Tanh", ["QQQQ"], ["y"])])
    raw = proto.SerializeToString().replace(b"QQQQ", "卷积".encode("gbk"))
    relu, tanh = read(ModelProto.FromString(raw)).layers
    assert relu.outputs == tanh.inputs == ("\\xbe\\xed\\xbb\\xfd",)
    assert relu.name == "\\xbe\\xed\\xbb\\xfd"


FOLDED = {
    "Range": [constant("a", 0), constant("b", 10**12), constant("c", 1)],
    "ConstantOfShape": [constant("a", [2**62])],
    "Tile": [constant("a", np.ones((2, 2), np.float32)), constant("b", [10**12, 1])],
    "Expand": [constant("a", np.ones((2, 2), np.float32)), constant("b", [10**12, 2, 2])],
    "Pad": [constant("a", np.ones((2, 2), np.float32)), constant("b", [10**12, 0, 0, 0])],
    "OneHot": [constant("a", [1]), constant("b", 10**12), constant("c", np.ones(2, np.float32))],
    "HannWindow": [constant("a", 10**12)],
}


@pytest.mark.parametrize("op", FOLDED)
def test_constants_too_large_for_any_machine_are_never_computed(op):
    names = [weight.name for weight in FOLDED[op]]
    nodes = [NODE(op, names, ["large"], name="made"),
             NODE("ReduceMax", ["large"], ["most"], keepdims=0),
             NODE("Cast", ["most"], ["m"], to=1), NODE("Add", ["x", "m"], ["y"])]  # fmt: skip
    refused(model(nodes, *FOLDED[op]), "layer 'made'")


def test_texts_that_double_with_every_layer_stay_small():
    nodes = [NODE("StringConcat", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(60)]
    nodes.append(NODE("Identity", ["t60"], ["y"]))
    normal = read(model(nodes, constant("t0", np.array(["ab"], object)), opset=20))
    assert sum(len(value.flat[0]) for value in normal.constants.values()) < 2**22


@pytest.mark.parametrize(("number", "text"), [([400_000_000], "400000000"), ([1.5], "1.5")])
def test_constant_numbers_become_their_text(number, text):
    node = NODE("Cast", ["v"], ["y"], to=TensorProto.STRING)
    normal = read(model([node], constant("v", number)))
    assert normal.constants["y"].tolist() == [text]


def function(name, nodes, opset=17):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], nodes, imports)


def call(name, source="a", result="b"):
    return NODE(name, [source], [result], domain="local", name=f"call of {name}")


def with_functions(*functions, first="f0"):
    return model([call(first, "x", "y")], functions=functions, domains=["local"])


def test_functions_that_multiply_layers_are_counted_before_they_are_inlined():
    functions = [function(f"f{i}", [call(f"f{i + 1}", "a", "t"), call(f"f{i + 1}", "t")])
                 for i in range(30)]  # fmt: skip
    begin = time.perf_counter()
    refused(with_functions(*functions, function("f30", [NODE("Relu", ["a"], ["b"])])), "layers")
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ([function("f0", [call("f1")]), function("f1", [call("f0")])], "'f0' calls itself"),
        ([function("f0", [NODE("Relu", ["a"], ["b"])])] * 2, "'f0' is defined twice"),
        ([function(f"f{i}", [call(f"f{i + 1}")]) for i in range(3000)], "deep"),
        ([function("f0", [NODE("Relu", ["a"], ["b"])], opset=99)], "opset 99"),
    ],
)
def test_functions_that_make_no_sense_are_refused(functions, words):
    refused(with_functions(*functions), words)


def test_a_missing_function_is_an_unknown_operator():
    (layer,) = read(with_functions(function("other", [NODE("Relu", ["a"], ["b"])]))).layers
    assert layer.opaque == "unknown operator local.f0"


@pytest.mark.parametrize("opset", [13, 17, 18, 20])
def test_functions_follow_the_opset_that_they_name(opset):
    """Until 17, axes of ReduceMean are an attribute; the model is of opset 17."""
    mean = NODE("ReduceMean", ["a"], ["b"], axes=[1], keepdims=0)
    nodes = [mean]
    if opset >= 18:
        axes = NODE("Constant", [], ["axes"], value_ints=[1])
        nodes = [axes, NODE("ReduceMean", ["a", "axes"], ["b"], keepdims=0)]
    normal = read(with_functions(function("f0", nodes, opset)))
    assert [layer.op for layer in normal.layers] == ["ReduceMean"]
    assert normal.tensors["y"].sizes == (2,)
    assert not any(layer.opset for layer in normal.layers)


@pytest.mark.parametrize(
    ("opsets", "ops"),
    [((11, 17), ["Reshape", "Softmax", "Reshape"]), ((13, 11), ["Softmax"])],
)
def test_layers_of_functions_follow_the_opset_of_the_function(opsets, ops):
    """Until 12, Softmax is over all axes from the second on."""
    own, outer = opsets
    made = function("f0", [NODE("Softmax", ["a"], ["b"])], own)
    proto = model([call("f0", "x", "y")], shape=(2, 3, 4), opset=outer, functions=[made],
                  domains=["local"])  # fmt: skip
    assert [layer.op for layer in read(proto).layers] == ops


def test_functions_may_import_what_the_model_does_not():
    body = [NODE("Normalizer", ["a"], ["b"], domain="ai.onnx.ml", norm="L2")]
    imports = [helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_function("local", "f0", ["a"], ["b"], body, imports)
    normal = read(with_functions(made))
    assert [layer.qualified_op for layer in normal.layers] == ["ai.onnx.ml.Normalizer"]
    assert normal.opsets["ai.onnx.ml"] == 3


NESTED = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[2,4] x, bool c) => (float[2,4] y, float[2,4] z, float[2,4] v)
{ y = local.Outer<slope=0.3>(x)
  z = local.Outer(y)
  v = If(c) < then_branch = p () => (float[2,4] t) { t = local.Inner(x) },
              else_branch = q () => (float[2,4] t) { t = local.Inner(y) } > }
<domain: "local", opset_import: ["" : 17]>
Inner(a) => (b) { t = Sigmoid(a)  b = Mul(t, a) }
<domain: "local", opset_import: ["" : 17, "local" : 1]>
Outer<slope : float = 0.01>(a) => (b)
{ t = local.Inner(a)
  yes = Constant<value = bool {1}>()
  u = If(yes) < then_branch = p () => (float[2,4] k) { k = LeakyRelu<alpha : float = @slope>(t) },
                else_branch = q () => (float[2,4] k) { k = Identity(a) } >
  b = Add(u, a) }
"""


def test_functions_inside_of_functions_and_branches_are_what_onnx_makes_of_them():
    proto = onnx.parser.parse_model(NESTED)
    expected = read(onnx.inliner.inline_local_functions(proto))
    found = read(proto)
    for model_ in (found, expected):
        assert [layer.op for layer in model_.layers] == [
            "Sigmoid", "Mul", "LeakyRelu", "Add", "Sigmoid", "Mul", "LeakyRelu", "Add", "If"
        ]  # fmt: skip
        slopes = [layer.attributes["alpha"] for layer in model_.layers if layer.op == "LeakyRelu"]
        assert slopes == pytest.approx([0.3, 0.01])
    assert found.layers[0].name == "Outer/Inner/Sigmoid"


def test_functions_compute_what_their_bodies_say():
    proto = onnx.parser.parse_model(NESTED)
    expected = onnx.inliner.inline_local_functions(proto)
    made = ModelProto()
    made.CopyFrom(proto)
    del made.graph.node[:], made.functions[:]
    made.graph.node.extend(inlined(proto, {"": 17, "local": 1}))
    onnx.checker.check_model(made)
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    results = [ReferenceEvaluator(each).run(None, {"x": x, "c": np.array(True)})
               for each in (made, expected)]  # fmt: skip
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_function_may_hand_on_its_input():
    made = helper.make_function("local", "f0", ["a"], ["a"], [], [helper.make_opsetid("", 17)])
    assert [layer.op for layer in read(with_functions(made)).layers] == ["Identity"]


def test_more_layers_than_any_model_has_are_refused():
    nodes = [NODE("Relu", ["x"], ["y"])] * (MAX_LAYERS + 1)
    refused(model(nodes), "layers")


def test_exceptions_inside_a_border_become_one_kind_of_error():
    with pytest.raises(ModelError, match="net: ValueError: a b") as caught, Border("net"):
        raise ValueError("a\nb")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ModelError, match="net: the memory is not enough"), Border("net"):
        raise MemoryError
    with pytest.raises(KeyboardInterrupt), Border("net"):
        raise KeyboardInterrupt


def test_a_broken_branch_that_always_runs_is_an_error():
    branch = helper.make_graph([NODE("Relu", ["nowhere2"], ["r"])], "b", [],
                               [helper.make_empty_tensor_value_info("other")])  # fmt: skip
    node = NODE("If", ["c"], ["y"], name="choice", then_branch=branch, else_branch=branch)
    proto = model([node], constant("c", True))
    refused(proto, "nowhere2")


def test_reading_a_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="regular file"):
        OnnxImporter().load(tmp_path / "net.onnx")
    (tmp_path / "zero.onnx").symlink_to("/dev/zero")
    with pytest.raises(ModelError, match="regular file"):
        OnnxImporter().load(tmp_path / "zero.onnx")


def test_files_above_the_limit_of_protobuf_have_an_error_of_their_own(tmp_path):
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.write(b"\x08\x08")
        file.truncate(3 * 2**30)  # takes no room on the disk
    with pytest.raises(ModelError, match=r"3\.2 GB; protobuf") as caught:
        OnnxImporter().load(path)
    assert "save_as_external_data" in caught.value.hint


@pytest.mark.parametrize(
    ("opset", "told"), [(5, "a newer opset"), (99, "upgrade onnx"), (None, "opset_import.append")]
)
def test_the_hint_on_an_opset_says_which_to_take(opset, told):
    proto = model([NODE("Relu", ["x"], ["y"])], opset=opset or 17)
    if opset is None:
        del proto.opset_import[:]
    with pytest.raises(ModelError) as raised:
        read(proto)
    assert told in raised.value.hint


def test_the_hint_on_an_old_opset_is_a_line_that_converts_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(model([NODE("Relu", ["x"], ["y"])], opset=6), "an 'old' one.onnx")
    with pytest.raises(ModelError, match="opset 6 is outside") as raised:
        OnnxImporter().load(Path("an 'old' one.onnx"))
    exec(raised.value.hint.partition("where it can: ")[2], {})
    assert OnnxImporter().load(Path("converted.onnx")).opsets[""] == 7
