"""A choice among the outputs of models: layers and inputs that only other outputs need are gone."""

import onnx
import pytest

from dlbricks_core.errors import ModelError
from dlbricks_core.importers import LoadOptions, canonical
from dlbricks_core.importers.models import ModelLoader
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import read_model

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[N] side, bool[1] if) => (float[2] y, float[N] z, float[2] w)
    {
        a = Relu(x)
        y = Exp(a)
        w = If(if) <
            then_branch = yes () => (float[2] t) { t = Neg(a) },
            else_branch = no () => (float[2] e) { e = Abs(a) }
        >
        z = Tanh(side)
    }"""

NAMES = {
    ("y",): (("y",), ["Relu", "Exp"], ("x",)),
    ("w", "y"): (("y", "w"), ["Relu", "Exp", "If"], ("x", "if")),
    ("net:z",): (("z",), ["Tanh"], ("side",)),
    ("w", "net:w", "other:z"): (("w",), ["Relu", "If"], ("x", "if")),
    (): (("y", "z", "w"), ["Relu", "Exp", "If", "Tanh"], ("x", "side", "if")),
    ("of_another",): (("y", "z", "w"), ["Relu", "Exp", "If", "Tanh"], ("x", "side", "if")),
}


def raw(name="net", text=TEXT):
    return read_model(onnx.parser.parse_model(text), name=name)


@pytest.mark.parametrize("names", NAMES, ids=",".join)
def test_layers_and_inputs_that_only_other_outputs_need_are_dropped(names):
    model = canonical(raw(), LoadOptions(dims={"N": 3}, outputs=names)).model
    found = (model.outputs, [layer.op for layer in model.layers], model.inputs)
    assert found == NAMES[names]


def test_nobody_has_to_size_an_input_that_nothing_reads():
    options = LoadOptions(outputs=("y",))
    with ModelLoader(options) as loader:
        assert loader.dimensions(raw()) == ()
        assert loader.load([raw()])[0].inputs == ("x",)
        with pytest.raises(ModelError, match="dimensions without a size"):
            loader.load_one(raw(), LoadOptions(outputs=("z",)))


def test_a_misspelt_dimension_is_named_where_one_lacks_a_size():
    words = "without a size: side.0 .N.; no dimension is called 'n'"
    with ModelLoader(LoadOptions()) as loader, pytest.raises(ModelError, match=words):
        loader.load_one(raw(), LoadOptions(dims={"n": 3}))
    with ModelLoader(LoadOptions()) as loader, pytest.raises(ModelError, match="size: side") as two:
        loader.load_one(raw(), LoadOptions(dims={"other:k": 3}))
    assert "is called" not in two.value.message


@pytest.mark.parametrize("name", ["N", "x", "other:y", "Y", "net"])
def test_an_unknown_output_is_refused_with_those_that_there_are(name):
    words = f"no model has an output called '{name}'"
    loader = ModelLoader(LoadOptions(dims={"N": 2}, outputs=("y", name)))
    with loader, pytest.raises(ModelError, match=words) as caught:
        loader.load([raw()])
    assert caught.value.hint == "Outputs here: y, z and w."


def test_a_name_counts_for_each_model_that_has_it():
    further = """<ir_version: 8, opset_import: ["" : 17]>
        h (float[2] x) => (float[2] p, float[2] q) { p = Exp(x)
        q = Abs(x) }"""
    with ModelLoader(LoadOptions(dims={"N": 2}, outputs=("y", "second:q"))) as loader:
        models = loader.load([raw(), raw("second", further), raw("third", further)])
    assert [each.outputs for each in models] == [("y",), ("q",), ("p", "q")]


def test_an_output_of_a_file_may_have_the_name_of_the_file(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    for prefix in ("net", "net.onnx", str(path)):
        options = LoadOptions(outputs=(f"{prefix}:y",))
        assert canonical(OnnxImporter().load(path), options).model.outputs == ("y",)
