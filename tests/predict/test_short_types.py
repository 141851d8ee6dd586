"""Features of layers that compute with short floats, or with codes."""

from __future__ import annotations

import pytest
from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.kinds import class_of
from dlbricks_testing import cases

from dlbricks_core.facts import System
from dlbricks_core.passes.convert import convert


def features(text):
    return Features.of(cases.build(text).model)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_short_type_makes_another_kind_and_half_the_bytes(dtype):
    own = cases.network("residual_block").model
    usual, short = Features.of(own), Features.of(convert(own, dtype))
    assert short.kinds == tuple(
        f"{own}~{dtype}{at}{head}" for own, at, head in (k.partition("@") for k in usual.kinds)
    )
    assert [*map(class_of, short.kinds)] == [*map(class_of, usual.kinds)]
    for name in ("read_bytes", "weight_bytes", "written_bytes"):
        at = NAMES.index(name)
        full, half = (2 ** each.numbers[:, at] - 1 for each in (usual, short))
        assert half == pytest.approx(full / 2)
    at = NAMES.index("flops")
    assert (short.numbers[:, at] == usual.numbers[:, at]).all()


def coded(results):
    """A convolution between tensors that are kept as codes."""
    return cases.build(
        "(uint8[1,8,9,9] x, float w1, uint8 w2, int8[4,8,3,3] w3, float w4, int8 w5,"
        f" int32[4] w6) => ({results})"
        "{ a = DequantizeLinear(x, w1, w2)"
        "  b = DequantizeLinear(w3, w4, w5)"
        "  c = DequantizeLinear(w6, w4)"
        "  y = Conv<pads=[1,1,1,1]>(a, b, c)"
        "  r = Relu(y)"
        "  z = QuantizeLinear(r, w1, w2) }"
    ).model


def test_a_convolution_of_codes_is_the_same_product():
    """Whether codes are read by the convolution itself or by layers before it."""
    (at,) = (i for i, layer in enumerate(coded("z").layers) if layer.op == "Conv")
    found = dict(zip(NAMES, Features.of(coded("z")).numbers[at], strict=True))
    text = (
        "(uint8[1,8,9,9] x, float w1, uint8 w2, int8[4,8,3,3] w3, float w4, int8 w5,"
        " int32[4] w6) => (y)"
        "{ y = QLinearConv<pads=[1,1,1,1]>(x, w1, w2, w3, w4, w5, w1, w2, w6) }"
    )
    (own,) = Features.of(cases.build(text).model).numbers
    for name in ("rows", "columns", "depth", "window", "groups", "stride", "column_waste"):
        assert found[name] == pytest.approx(own[NAMES.index(name)])
    share = (25 / 27) ** 2  # at the edges, windows read padding
    assert 2 ** own[0] - 1 == pytest.approx(4 * 81 * (2 * 72 + 3) * share, abs=1)
    assert features(text).kinds == ("convolution:dense~uint8",)


def test_what_computes_with_codes_is_of_another_kind():
    """A framework may compute with codes where the model says that it reads floats."""
    assert {*Features.of(coded("z")).kinds} == {
        "codes:read~uint8@convolution",
        "codes:read-weights~int8@convolution",
        "codes:read-weights@convolution",
        "convolution:dense~codes",
        "elementwise:relu@convolution",
        "codes:written~uint8@convolution",
    }


def test_codes_that_become_floats_for_others_are_read_indeed():
    assert "codes:read~uint8" in Features.of(coded("a,z")).kinds
    alone = (
        "(uint8[2,8] x, float w1, uint8 w2) => (y){ a = DequantizeLinear(x, w1, w2) y = Relu(a) }"
    )
    assert features(alone).kinds == ("codes:read~uint8", "elementwise:relu~codes")


@pytest.mark.parametrize(("dtype", "read"), [("float8e4m3fn", ""), ("int8", "@product")])
def test_no_product_takes_tiny_floats_as_they_are(dtype, read):
    text = (
        f"(float[2,8] x, {dtype}[8,4] w1, float w2) => (y)"
        "{ b = DequantizeLinear(w1, w2) y = MatMul(x, b) }"
    )
    assert features(text).kinds[0] == f"codes:read-weights~{dtype}{read}"


def test_a_filter_of_codes_tells_whether_channels_are_convolved_alone():
    text = (
        "(float[1,8,9,9] x, int8[8,1,3,3] w1, float w2) => (y)"
        "{ b = DequantizeLinear(w1, w2) y = Conv<group=8, pads=[1,1,1,1]>(x, b) }"
    )
    assert features(text).kinds[-1] == "convolution:depthwise"


def test_the_baseline_of_a_short_type_is_as_efficient_and_moves_less():
    own = cases.network("attention_by_hand").model
    processor = Processor.of(System(), 1)
    usual, short = (expected_ms(Features.of(m), processor) for m in (own, convert(own, "float16")))
    assert (short <= usual).all()
    assert (short > usual / 2.1).all()
