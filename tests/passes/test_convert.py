"""Models in other element types: valid in ONNX, in canonical form, and otherwise the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from dlbricks_contrib.floats import FLOATS, rounded
from dlbricks_testing import cases
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import ModelError
from dlbricks_core.ir import CanonicalModel, numpy_dtype, read_model, to_onnx
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import CONVERSIONS, convert
from dlbricks_core.values import materialize

SHORT = ("bfloat16", "float16")


def model(text: str) -> CanonicalModel:
    header = '<ir_version: 10, opset_import: ["" : 21]>\n'
    return normalize(read_model(onnx.parser.parse_model(header + text), name="net"))


def types(of: CanonicalModel) -> dict[str, str]:
    return {name: spec.dtype for name, spec in of.tensors.items()}


def operators(of: CanonicalModel) -> list[str]:
    return [layer.op for layer in of.layers]


@pytest.mark.parametrize("name", [*cases.COMMON, *cases.UNCOMMON, *cases.REWRITTEN])
def test_a_converted_model_is_valid_and_in_canonical_form(name: str) -> None:
    own = cases.network(name).model
    for dtype in FLOATS.intersection(CONVERSIONS):
        found = convert(own, dtype)
        again = normalize(found.as_raw())
        assert (again.layers, again.tensors) == (found.layers, found.tensors)
        assert (found.name, found.inputs, found.outputs) == (own.name, own.inputs, own.outputs)
        for end in (*own.inputs, *own.outputs):
            wanted = dtype if own.tensors[end].dtype in FLOATS else own.tensors[end].dtype
            assert found.tensors[end].dtype == wanted
            assert found.tensors[end].shape == own.tensors[end].shape
        proto = to_onnx(found, materialize(found).weights)
        onnx.checker.check_model(proto)
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)


@pytest.mark.parametrize("dtype", SHORT)
def test_weights_inputs_and_activations_have_the_type_and_integers_keep_theirs(dtype: str) -> None:
    found = convert(
        model("g (float[2,3] x, int64[2] i, float[3,4] w, double[1] d)"
              " => (float[2,4] y, double[1] e)"
              "{ a = MatMul(x, w) b = Gather(a, i) y = Relu(b) e = Sqrt(d) }"), dtype
    )  # fmt: skip
    kept = {"i": "int64", "d": "float64", "e": "float64"}
    assert types(found) == {**dict.fromkeys(("x", "w", "a", "b", "y"), dtype), **kept}
    assert operators(found) == ["MatMul", "Gather", "Relu", "Sqrt"]


def test_layers_that_lack_the_type_compute_in_float32_between_casts() -> None:
    found = convert(
        model("g (float[2,3] x) => (float[2,3] y) { a = Celu(x) b = Celu(a) y = Relu(b) }"),
        "float16",
    )
    assert operators(found) == ["Cast", "Celu", "Celu", "Cast", "Relu"]
    assert [found.tensors[name].dtype for name in ("x", "a", "b", "y")] == [
        "float16", "float32", "float32", "float16",
    ]  # fmt: skip


def test_an_output_of_such_a_layer_has_the_type_under_its_own_name() -> None:
    found = convert(model("g (float[2,3] x) => (float[2,3] y) { y = Celu(x) }"), "bfloat16")
    assert operators(found) == ["Cast", "Celu", "Cast"]
    assert types(found)["y"] == "bfloat16"


def test_a_weight_is_there_in_each_type_that_a_layer_reads_it_in() -> None:
    found = convert(
        model("g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}>"
              "{ a = Add(x, w) b = Celu(a) c = Einsum<equation=\"ij,jk->ik\">(b, w) y = Relu(c) }"),
        "bfloat16",
    )  # fmt: skip
    assert operators(found) == ["Add", "Cast", "Celu", "Einsum", "Cast", "Relu"]
    assert {name: types(found)[name] for name in found.weights} == {
        "w": "bfloat16", "w.float32": "float32",
    }  # fmt: skip
    assert (found.constants["w"] == found.constants["w.float32"]).all()


def test_attributes_that_choose_the_type_of_a_result_choose_the_new_one() -> None:
    own = model("g (float[2,3] x, int64[2,3] i) => (float[2,3] y)"
                "{ c = Cast<to=1>(i) r = RandomNormal<shape=[2,3]>() a = Add(c, r)"
                " y = Add(a, x) }")  # fmt: skip
    found = convert(own, "bfloat16")
    assert operators(found) == operators(own)
    assert set(types(found).values()) == {"bfloat16", "int64"}


def test_a_cast_that_converts_nothing_any_more_is_gone() -> None:
    mixed = model("g (float16[2,3] x) => (float[2,3] y, float[2,3] z)"
                  "{ a = Cast<to=1>(x) y = Relu(a) z = Cast<to=1>(x) }")  # fmt: skip
    assert operators(convert(mixed, "float16")) == ["Relu", "Identity"]
    assert operators(convert(mixed, "float32")) == ["Relu", "Identity"]


def test_what_a_subgraph_reads_stays_as_it_is() -> None:
    own = model("""g (float[2] x, bool c) => (float[n] y, float[2] z)
        {
            a = Relu(x)
            y = If (c) <then_branch = t () => (float[n] p) { p = Concat<axis=0>(a, a) },
                        else_branch = e () => (float[n] q) { q = Identity(a) }>
            z = Tanh(a)
        }""")
    found = convert(own, "float16")
    assert found.layers[[layer.op for layer in found.layers].index("If")].captures == ("a",)
    assert types(found)["a"] == "float32"
    assert types(found)["z"] == "float16"


def test_two_element_types_of_one_model_are_other_work() -> None:
    own = cases.network("convolutions").model
    signatures = {
        dtype: set(BrickSet.of([convert(own, dtype)], 1, "chain").bricks)
        for dtype in FLOATS.intersection(CONVERSIONS)
    }
    assert len(set.union(*signatures.values())) == sum(map(len, signatures.values()))


def test_there_and_back_is_the_same_model() -> None:
    own = cases.network("attention").model
    back = convert(convert(own, "bfloat16"), "float32")
    assert (back.layers, back.tensors) == (own.layers, own.tensors)


def test_an_unknown_type_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ModelError, match="dtype int7 is not an element type") as caught:
        convert(cases.network("relu").model, "int7")
    assert all(name in caught.value.hint for name in CONVERSIONS)


@given(st.floats(width=32), st.sampled_from(SHORT))
def test_a_known_number_keeps_its_sign_and_stays_finite_and_normal(
    value: float, dtype: str
) -> None:
    limits = ml_dtypes.finfo(numpy_dtype(dtype))
    (found,) = rounded(np.array([value], np.float32), dtype).astype(np.float64)
    assert np.isnan(found) == np.isnan(value)
    assert np.isinf(found) == np.isinf(value)
    if np.isfinite(value):
        assert np.sign(found) == np.sign(value)
        assert found == 0 or abs(found) >= float(limits.smallest_normal)
        if float(limits.smallest_normal) <= abs(value) <= float(limits.max):
            assert abs(found - value) <= float(limits.eps) * abs(value)


CODES = """g (float16[2,32] x, int8[32,48] w) => (y) <float s = {{0.5}}> {{
    d = DequantizeLinear<output_dtype=10>(w, s) m = MatMul(x, d)
    q = QuantizeLinear<output_dtype=3, precision=1>({read}, s)
    y = DequantizeLinear<output_dtype={out}>(q, s) }}"""


@pytest.mark.parametrize("dtype", sorted(FLOATS))
@pytest.mark.parametrize("out", [1, 10])
def test_types_that_quantization_names_are_converted(dtype: str, out: int) -> None:
    header = '<ir_version: 11, opset_import: ["" : 23]>\n'
    text = CODES.format(read="m", out=out)
    own = normalize(read_model(onnx.parser.parse_model(header + text), name="net"))
    found = convert(own, dtype)
    for layer in found.layers:
        assert not {"precision", "output_dtype"} & layer.attributes.keys() or (
            layer.op == "QuantizeLinear" and layer.attributes["output_dtype"] == 3
        )
    assert types(found)["y"] == types(found)["d"] == dtype
    again = normalize(found.as_raw())
    assert (again.layers, again.tensors) == (found.layers, found.tensors)


def test_a_type_that_quantization_names_is_gone_where_the_scale_has_it() -> None:
    header = '<ir_version: 11, opset_import: ["" : 23]>\n'
    text = "g (int8[2,3] x) => (y) <float s = {0.5}> { y = DequantizeLinear<output_dtype=1>(x, s) }"
    own = normalize(read_model(onnx.parser.parse_model(header + text), name="net"))
    assert "output_dtype" not in own.layers[0].attributes
