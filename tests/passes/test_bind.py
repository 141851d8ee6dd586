"""Dynamic dimensions."""

from __future__ import annotations

import onnx
import pytest

from dlbricks_core.errors import ModelError, UnboundDimensionsError
from dlbricks_core.ir import Model, TensorSpec, read_model
from dlbricks_core.passes import normalize

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,?,W] data, float[N,3,8,W] mask, float[?,4] other)
    => (float[N,3,H2,W] y, float[?,4] z)
{ y = Mul(data, mask)  z = Relu(other) }
"""


def model() -> Model:
    return read_model(onnx.parser.parse_model(TEXT), name="net")


def test_every_unbound_dimension_is_listed() -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(model())
    for place in ("data.0 (N)", "data.2", "data.3 (W)", "mask.0 (N)", "mask.3 (W)", "other.0"):
        assert place in caught.value.message
    assert "--batch N" in caught.value.hint
    assert "--dim data.2=N" in caught.value.hint
    assert caught.value.hint.count("--dim W=N") == 1


def test_a_question_mark_is_no_name() -> None:
    proto = onnx.parser.parse_model(TEXT)
    for axis in (0, 2):  # as Paddle writes sizes that have nothing to do with each other
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "?"
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(read_model(proto, name="net"), batch=1)
    assert "--dim data.2=N" in caught.value.hint
    assert "?" not in caught.value.hint


def test_batch_and_names_bind_everything() -> None:
    normal = normalize(model(), batch=2, dims={"W": 5, "data.2": 8})
    assert normal.tensors["data"] == TensorSpec("float32", (2, 3, 8, 5))
    assert normal.tensors["mask"].sizes == (2, 3, 8, 5)
    assert normal.tensors["other"].sizes == (2, 4)
    assert normal.tensors["y"].sizes == (2, 3, 8, 5)


def test_a_place_binds_its_symbol() -> None:
    dims = {"mask.3": 5, "data.2": 8, "other.0": 7, "N": 2}
    normal = normalize(model(), batch=9, dims=dims)
    assert normal.tensors["data"].sizes == (2, 3, 8, 5)
    assert normal.tensors["other"].sizes == (7, 4)


def test_batch_alone_leaves_the_rest_unbound() -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(model(), batch=1)
    assert "data.0" not in caught.value.message
    assert "--batch" not in caught.value.hint


@pytest.mark.parametrize("name", ["X", "data.9", "nobody.0", "data.-1"])
def test_a_name_that_matches_nothing_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match="no dimension is called") as caught:
        normalize(model(), batch=1, dims={"W": 5, "data.2": 8, name: 3})
    assert "data.2" in caught.value.hint


def test_a_fixed_dimension_cannot_change() -> None:
    with pytest.raises(ModelError, match="fixed size 3"):
        normalize(model(), dims={"data.1": 4})


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ModelError, match="cannot have size -1"):
        normalize(model(), batch=-1)


def test_an_empty_cache_is_allowed() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,past,4] cache, float[1,1,4] new) => (float[1,all,4] y)
    { y = Concat<axis=1>(cache, new) }"""
    normal = normalize(read_model(onnx.parser.parse_model(text), name="m"), dims={"past": 0})
    assert normal.tensors["y"].sizes == (1, 1, 4)


def test_batch_that_does_not_fit_names_the_layer() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,6] x) => (float[2,3] y)
    <int64[2] shape = {2, 3}>
    { y = Reshape(x, shape) }"""
    raw = read_model(onnx.parser.parse_model(text), name="net")
    assert normalize(raw, batch=1).tensors["y"].sizes == (2, 3)
    with pytest.raises(ModelError, match="Reshape does not fit its inputs") as caught:
        normalize(raw, batch=2)
    assert "'y'" in caught.value.message


def test_an_input_without_rank_cannot_be_bound() -> None:
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UnboundDimensionsError, match="'data' has no shape"):
        normalize(read_model(proto, name="net"), batch=1, dims={"W": 5})
