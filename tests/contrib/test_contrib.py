"""ONNX Runtime's own operators in the IR: shapes, values, signatures, and what they stand for."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import onnx
import pytest
from dlbricks_contrib.definitions import unpacked
from dlbricks_contrib.expand import expanded
from dlbricks_prediction.features import NAMES, Features
from dlbricks_testing.cases import build, evaluate
from dlbricks_testing.operators import DEFINED, UNDEFINED
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.analysis.work import layer_bytes, layer_flops
from dlbricks_core.bricks import extract, signature
from dlbricks_core.errors import ModelError
from dlbricks_core.ir import read_model
from dlbricks_core.operators.domains import as_run_by
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

ALL = {**DEFINED, **UNDEFINED}
TOKEN = DEFINED["GroupQueryAttention of a token"]


def model_of(text):
    return build(text).model


def layer_of(model, op):
    return next(index for index, layer in enumerate(model.layers) if layer.op == op)


@pytest.mark.parametrize("name", ALL)
def test_a_canonical_model_with_such_layers_stays_as_it_is(name):
    model = model_of(ALL[name])
    assert normalize(model.as_raw()).layers == model.layers


@pytest.mark.parametrize("name", ALL)
def test_operations_and_bytes_of_every_layer_are_known(name):
    model = model_of(ALL[name])
    for layer in model.layers:
        assert layer_flops(model, layer) > 0
        assert layer_bytes(model, layer) > 0
    numbers = Features.of(model).numbers
    assert np.isfinite(numbers).all()
    assert numbers.shape[1] == len(NAMES)


def test_a_fused_convolution_counts_what_is_fused_into_it():
    model = model_of(UNDEFINED["FusedConv"])
    weights, fused = 3 * 3 * 3, 3  # bias, summand and activation
    assert layer_flops(model, model.layers[0]) == 2 * 8 * 5 * 5 * (2 * weights + fused)


def test_a_product_with_packed_weights_reads_their_bytes():
    model = model_of(DEFINED["MatMulNBits"])
    assert Features.of(model).kinds == ("product:4-bit~uint8",)
    (row,) = Features.of(model).numbers
    found = dict(zip(NAMES, 2**row - 1, strict=True))
    assert found["flops"] == pytest.approx(2 * 6 * 24 * 64)
    assert found["weight_bytes"] == pytest.approx(24 * 2 * 16 + 4 * 24 * 2)
    assert (found["rows"], found["columns"], found["depth"]) == pytest.approx((6, 24, 64))
    assert Features.of(model).kinds == ("product:4-bit~uint8",)


def widened(block=32, product="y = MatMul(x, wide)"):
    """A product with a weight of four bits that another layer widens."""
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.INT4, [64, 24], bytes(64 * 12), raw=True)
    scales = onnx.numpy_helper.from_array(np.ones((64 // block, 24), np.float32), "s")
    text = f"""
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[6,64] x, int4[64,24] w, float[{64 // block},24] s) => (float[6,24] y)
    {{ wide = DequantizeLinear<axis=0, block_size={block}>(w, s)  {product} }}
    """
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend([weight, scales])
    del proto.graph.input[1:]
    return normalize(read_model(proto, name="net"))


def test_products_with_widened_codes_are_predicted_as_what_onnxruntime_makes_of_them():
    model = widened()
    runs = as_run_by(frozenset({"com.microsoft"}), model)
    assert [layer.op for layer in runs.layers] == ["MatMulNBits"]
    assert Features.of(runs).kinds == Features.of(model_of(DEFINED["MatMulNBits"])).kinds
    (row,) = Features.of(runs).numbers
    found = dict(zip(NAMES, 2**row - 1, strict=True))
    assert (found["rows"], found["columns"], found["depth"]) == pytest.approx((6, 24, 64))
    assert found["weight_bytes"] == pytest.approx(24 * 64 / 2 + 4 * 24 * 2)
    assert as_run_by(frozenset(), model) is model


@pytest.mark.parametrize(
    ("block", "product"),
    [(8, "y = MatMul(x, wide)"), (32, "z = MatMul(x, wide)  w2 = MatMul(x, wide)  y = Add(z, w2)")],
)
def test_widened_codes_that_onnxruntime_does_not_join_stay(block, product):
    model = widened(block, product)
    assert as_run_by(frozenset({"com.microsoft"}), model) is model


def test_attention_counts_all_keys_of_the_cache():
    model = model_of(TOKEN)
    rotation = 3 * 2 * (4 + 2) * 16
    assert layer_flops(model, model.layers[0]) == 2 * 4 * 1 * 7 * (4 * 16 + 5) + rotation


def test_embeddings_read_no_more_of_their_tables_than_they_write():
    model = model_of(DEFINED["EmbedLayerNormalization"])
    wide = replace(
        model, tensors={**model.tensors, "w1": replace(model.tensors["w1"], shape=(30000, 16))}
    )
    assert layer_bytes(wide, wide.layers[0]) == layer_bytes(model, model.layers[0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DEFINED["MatMulNBits"].replace("K=64", "K=96"), "K is 96, its input has 64 columns"),
        (DEFINED["MatMulNBits"].replace("K=64, ", ""), "lacks its attribute K"),
        (DEFINED["MatMulNBits"].replace("bits=4", 'bits="4"'), "the attribute bits"),
        (DEFINED["Gelu"].replace("(x)", "(x, x)"), "Gelu has 2 inputs, its definition allows 1"),
        (DEFINED["FusedMatMul"].replace("transA=1", "transA=0"), "no factors of a matrix product"),
        (TOKEN.replace("num_heads=4, ", ""), "lacks its attribute num_heads"),
        (TOKEN.replace("float[2,1,64] q", "float[64] q"), "does not fit its inputs"),
        (DEFINED["RotaryEmbedding"].replace("[2,3,32]", "[32]"), "has 1 axes, not three or four"),
        (
            UNDEFINED["NhwcMaxPool"].replace("kernel_shape=[3,3]", "kernel_shape=[30,3]"),
            "would have a negative size",
        ),
        (TOKEN.replace("{7}", "{9}"), "all steps are 9, steps of the cache and new steps 7"),
        (DEFINED["Attention"].replace("num_heads=2", "num_heads=0"), "does not fit its inputs"),
    ],
)
def test_a_layer_that_does_not_fit_its_definition_is_named_with_what_is_wrong(text, reason):
    with pytest.raises(ModelError, match=reason):
        build(text)


def test_attributes_and_lengths_are_part_of_a_signature():
    def of(text):
        model = model_of(text)
        return signature(model, range(len(model.layers)))

    assert of(TOKEN) == of(TOKEN.replace(" q", " query").replace("(q,", "(query,"))
    assert of(TOKEN) != of(TOKEN.replace("softcap=5.0", "softcap=6.0"))
    assert of(TOKEN) != of(TOKEN.replace("{7}", "{5}"))


def test_a_cache_with_room_keeps_its_size():
    model = model_of(TOKEN.replace("{7}", "{5}"))
    assert [model.tensors[name].sizes[2] for name in "ab"] == [6, 6]


def test_an_unknown_operator_keeps_the_shape_that_the_file_declares():
    model = model_of("(float[2,8] x) => (float[2,9] y) { y = com.microsoft.Unheard(x) }")
    assert not model.layers[0].opaque
    assert model.tensors["y"].sizes == (2, 9)


# Values


@pytest.mark.parametrize("name", ["GroupQueryAttention of a prompt",
                                  "GroupQueryAttention of a token"])  # fmt: skip
def test_all_steps_are_used_also_where_a_brick_is_alone(name):
    model = model_of(DEFINED[name])
    index = layer_of(model, "GroupQueryAttention")
    brick = extract(model, (index,), "brick")
    layer = brick.layers[0]
    total = int(brick.constants[layer.inputs[6]].reshape(()))
    lengths = materialize(brick).inputs[layer.inputs[5]]
    assert lengths.tolist() == [total - 1] * 2


def test_the_number_of_all_steps_is_that_of_the_cache_and_the_new_ones_if_it_is_an_input():
    text = TOKEN.replace("t = Constant<value = int32 {7}>()", "").replace(
        "int32[2] s,", "int32[2] s, int32 t,"
    )
    text = text.replace("=> (y, a, b)", "=> (y, float[2,2,7,16] a, float[2,2,7,16] b)")
    network = build(text)
    assert not network.model.layers[0].opaque
    assert (network.inputs["s"].tolist(), network.inputs["t"].tolist()) == ([6, 6], 7)


def test_lengths_that_a_mask_gives_are_left_to_the_mask():
    text = (
        "(float[2,1,64] q, float[2,1,32] k, float[2,1,32] v, float[2,2,6,16] pk,"
        " float[2,2,6,16] pv, int64[2,7] m) => (y, a, b) { o = Constant<value_ints=[1]>()"
        " r = ReduceSum<keepdims=0>(m, o) d = Sub(r, o) s = Cast<to=6>(d)"
        " t = Constant<value = int32 {7}>() y, a, b = com.microsoft.GroupQueryAttention"
        "<num_heads=4, kv_num_heads=2>(q, k, v, pk, pv, s, t) }"
    )
    assert (build(text).inputs["m"] == 1).all()


@given(seed=st.integers(0, 2**16))
def test_positions_lie_within_the_table(seed):
    for name, most in (("RotaryEmbedding", 20), ("RotaryEmbedding of a shift", 18)):
        places = build(DEFINED[name], seed=seed).inputs["p"]
        assert 0 <= places.min() <= places.max() < most


def test_attention_with_ends_and_starts_gets_whole_sequences():
    text = DEFINED["Attention with lengths"].replace("int32[2] m", "int32[4] m")
    assert build(text).inputs["m"].tolist() == [5, 5, 0, 0]


def test_lengths_of_another_form_are_left_alone():
    text = DEFINED["Attention with lengths"].replace("int32[2] m", "int32[8] m")
    assert build(text).inputs["m"].tolist() == [1] * 8


def test_codes_are_spread_and_scales_keep_the_magnitude():
    text = (
        "(float[64,512] x, uint8[256,16,16] w1, float[256,16] w2) => (y)"
        "{ y = com.microsoft.MatMulNBits<K=512, N=256, bits=4, block_size=32>(x, w1, w2) }"
    )
    network = build(text)
    codes, scales = network.weights["w1"], network.weights["w2"]
    assert len(np.unique(codes)) == 256
    assert scales.min() > np.finfo(np.float16).tiny
    whole = expanded(network.model, known=()).network(network)
    assert evaluate(whole)["y"].std() == pytest.approx(1.0, rel=0.1)


@pytest.mark.long
def test_codes_of_a_large_matrix_repeat_and_take_no_more_memory_than_their_own():
    text = (
        "(float[1,4096] x, uint8[8192,128,16] w1, float[8192,128] w2) => (y)"
        "{ y = com.microsoft.MatMulNBits<K=4096, N=8192, block_size=32>(x, w1, w2) }"
    )
    model = model_of(text)
    tracemalloc.start()
    codes = materialize(model).weights["w1"]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(np.unique(codes)) == 256
    assert not (codes[0] == codes[1]).all()
    assert most < 4 * codes.nbytes


def test_codes_of_dynamic_products_are_spread():
    text = (
        "(float[8,64] x, int8[64,32] w1, float w2) => (y) { c, s, z = DynamicQuantizeLinear(x)"
        " p = MatMulInteger(c, w1, z) f = Cast<to=1>(p) t = Mul(s, w2) y = Mul(f, t) }"
    )
    codes = build(text).weights["w1"]
    assert (codes.min(), codes.max()) == (-127, 127)


# Definitions


@given(
    bits=st.sampled_from([2, 4]),
    rows=st.integers(1, 3),
    columns=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_codes_are_unpacked_from_the_lowest_bits_on(bits, rows, columns, seed):
    codes = np.random.default_rng(seed).integers(0, 1 << bits, (rows, columns), np.uint8)
    per_byte = 8 // bits
    padded = np.zeros((rows, -(-columns // per_byte) * per_byte), np.uint8)
    padded[:, :columns] = codes
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    packed = (padded.reshape(rows, -1, per_byte) << shifts).sum(-1).astype(np.uint8)
    found = evaluate_body(lambda body: unpacked(body, "x", bits, columns), packed)
    np.testing.assert_array_equal(found, codes)


def evaluate_body(add, x):
    from dlbricks_contrib.definitions import Body

    from dlbricks_core.ir import CanonicalModel, Layer, Network, TensorSpec

    spec = TensorSpec("uint8", x.shape)
    body = Body(Layer("Any", ("x",), ("y",)), [spec], [None])
    body.give(0, add(body))
    tensors = {"x": spec, **body.specs(), "y": TensorSpec("uint8", (1, 1))}
    unknown = {name: TensorSpec("undefined", None) for each in body.layers for name in each.outputs}
    model = CanonicalModel("m", tuple(body.layers), ("x",), ("y",), {**unknown, **tensors},
                           frozenset(body.constants), body.constants, {"": 21})  # fmt: skip
    return evaluate(Network(model, body.constants, {"x": x}))["y"]


def test_what_is_known_stays_and_the_rest_is_put_together():
    model = model_of(DEFINED["SkipSimplifiedLayerNormalization"])
    operator = "com.microsoft.SkipSimplifiedLayerNormalization"
    assert expanded(model, known={operator}).model is model
    whole = expanded(model, known=())
    assert [layer.op for layer in whole.model.layers] == ["Add", "RMSNormalization"]
    assert whole.origins == (0, 0)
    assert whole.model.outputs == model.outputs


def test_alike_layers_get_tensors_of_their_own():
    text = (
        "(float[2,8] x, float[8] w1, float[8] w2) => (z)"
        "{ y = com.microsoft.QuickGelu(x) z = com.microsoft.QuickGelu(y) }"
    )
    network = build(text)
    whole = expanded(network.model, known=()).network(network)
    x = network.inputs["x"].astype(np.float64)
    for _ in range(2):
        x = x / (1 + np.exp(-1.702 * x))
    np.testing.assert_allclose(evaluate(whole)["z"], x, rtol=1e-4)


def test_what_a_definition_does_not_cover_stays_with_the_reason():
    model = model_of(TOKEN.replace("{7}", "{5}"))
    whole = expanded(model, known=())
    assert whole.model.layers == model.layers
    assert whole.refused == {0: "a cache that is longer than its content has no definition"}


def test_a_result_that_a_definition_lacks_is_named():
    text = DEFINED["SimplifiedLayerNormalization"]
    model = model_of(text.replace("=> (y)", "=> (y, m)").replace("{ y", "{ y, m"))
    whole = expanded(model, known=())
    assert whole.model.layers == model.layers
    assert whole.refused == {0: "its result 1 has no definition"}
