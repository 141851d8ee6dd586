import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import onnx.parser
import pytest
from dlbricks_testing import cases
from onnx.reference import ReferenceEvaluator

from dlbricks_core.bricks import BrickSet, extract
from dlbricks_core.errors import ModelError
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, read_model, to_onnx
from dlbricks_core.ir.tensors import is_aligned
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

TINY = np.finfo(np.float32).tiny


def ordinary(array):
    values = np.abs(array[array != 0])
    return np.isfinite(array).all() and (values >= TINY).all()


def single(op, inputs, outputs, attributes=None, weights=(), constants=None):
    layer = Layer(op, tuple(inputs), tuple(outputs), attributes or {})
    fed = tuple(n for n in inputs if n not in weights)
    return CanonicalModel(
        "one", (layer,), fed, tuple(outputs), {**inputs, **outputs}, frozenset(weights),
        constants or {},
    )  # fmt: skip


def f(*shape):
    return TensorSpec("float32", shape)


def i64(*shape):
    return TensorSpec("int64", shape)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(residual):
    first, second, other = (
        to_onnx(residual(), materialize(residual(), seed).weights).SerializeToString()
        for seed in (3, 3, 4)
    )
    assert first == second
    assert first != other


ENCODER = """
<ir_version: 10, opset_import: ["" : 21]>
encoder (int64[1,16] ids, int64[1,16] mask, float[50,32] words, float[16,32] places,
         float[32,32] w1, float[32] b1, float[32,32] w2, float[32] scale, float[32] shift) => (y)
{
    zero = Constant<value_ints=[0]>() one = Constant<value_float=1.0>()
    two = Constant<value_float=2.0>() tiny = Constant<value_float=0.00001>()
    last = Constant<value_ints=[-1]>() large = Constant<value_float=-10000.0>()
    root = Constant<value_float=1.4142135>() half = Constant<value_float=0.5>()
    word = Gather(words, ids) x = Add(word, places)
    held = Cast<to=1>(mask) absent = Sub(one, held) wide = Unsqueeze(absent, zero)
    bias = Mul(wide, large)
    q = MatMul(x, w1) k = MatMul(x, w2) turned = Transpose<perm=[0,2,1]>(k)
    score = MatMul(q, turned) masked = Add(score, bias) weight = Softmax(masked)
    seen = MatMul(weight, x) added = Add(seen, b1)
    mean = ReduceMean(added, last) centred = Sub(added, mean) squared = Pow(centred, two)
    variance = ReduceMean(squared, last) above = Add(variance, tiny) deviation = Sqrt(above)
    even = Div(centred, deviation) scaled = Mul(even, scale) normal = Add(scaled, shift)
    part = Div(normal, root) error = Erf(part) more = Add(error, one) gelu = Mul(normal, more)
    y = Mul(gelu, half)
}"""

TAGGER = """
<ir_version: 10, opset_import: ["" : 21]>
tagger (int64[9,1] ids, float[40,8] words, float[1,24,8] w, float[1,24,6] r, float[1,48] b)
    => (y, norm)
{
    x = Gather(words, ids) y, h, c = LSTM<hidden_size=6>(x, w, r, b)
    length = ReduceL2<keepdims=1>(h) norm = Div(h, length)
}"""


def textual(text, *fed):
    raw = read_model(onnx.parser.parse_model(text), name="text")
    weights = raw.weights | (set(raw.inputs) - set(fed))
    return normalize(replace(raw, inputs=fed, weights=frozenset(weights)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "checksums"),
    [
        (lambda: normalize(LightModels().load("resnet50")), (2536874673, 2082296308)),
        (lambda: textual(ENCODER, "ids", "mask"), (4078382304, 449043461)),
        (lambda: textual(TAGGER, "ids"), (294874805, 2625088418)),
    ],
    ids=["resnet", "encoder", "tagger"],
)
def test_values_of_ordinary_models_have_not_changed(model, checksums):
    """Latencies depend on the distribution of values: it may not change by accident."""
    whole = model()
    single = [brick.model for brick in BrickSet.of([whole]).bricks.values()]
    assert (checksum([whole]), checksum(single)) == checksums


def checksum(models):
    found = 0
    for network in map(materialize, models):
        for _, value in sorted({**network.weights, **network.inputs}.items()):
            found = zlib.crc32(np.ascontiguousarray(value), found)
    return found


def test_weights_begin_on_a_cache_line(residual):
    assert all(is_aligned(weight) for weight in materialize(residual()).weights.values())
    assert not is_aligned(np.zeros(100, np.uint8)[1:])


@pytest.mark.parametrize(
    ("op", "shape", "others"),
    [
        ("Relu", (1, 16, 9, 10), (2, 3)),
        ("LayerNormalization", (1, 9, 10, 16), (1, 2)),
        ("RMSNormalization", (1, 4, 3, 5, 3, 16), (1, 2, 3, 4)),
    ],
)
def test_feature_maps_differ_more_from_each_other_than_within(op, shape, others):
    tensors = {"x": f(*shape), "w": f(16)} if op != "Relu" else {"x": f(*shape)}
    model = single(op, tensors, {"y": f(*shape)}, weights=("w",) if "w" in tensors else ())
    values = materialize(model).inputs["x"]
    assert values.std(axis=others).max() < 0.2
    assert values.mean(axis=others).std() > 0.5


def test_inputs_of_a_users_model_are_noise():
    model = single("Relu", {"x": f(1, 16, 9, 10)}, {"y": f(1, 16, 9, 10)})
    values = materialize(model, noise=True).inputs["x"]
    assert values.std(axis=(2, 3)).min() > 0.8
    assert abs(values.mean(axis=(2, 3))).max() < 0.4


def test_large_weights_repeat_values_but_no_row():
    shapes = {"x": f(1, 1100), "w": f(1100, 2000)}
    model = single("MatMul", shapes, {"y": f(1, 2000)}, weights=("w",))
    weight = materialize(model).weights["w"]
    assert weight.var() == pytest.approx(1 / 1100, rel=0.01)
    assert abs(weight.mean()) < 1e-3
    assert len(np.unique(weight)) < 0.6 * weight.size
    assert len(np.unique(weight, axis=0)) == 1100


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet50", "inception_v2", "shufflenet"])
def test_activations_of_real_networks_stay_in_a_normal_range(name):
    ort = pytest.importorskip("onnxruntime")
    model = normalize(LightModels().load(name))
    # Look inside: every layer's result becomes an output.
    every = tuple(out for layer in model.layers for out in layer.outputs if out)
    whole = extract(model, range(len(model.layers)), "whole")
    assert len(every) == len([o for layer in whole.layers for o in layer.outputs if o])
    seen = tuple(o for layer in whole.layers for o in layer.outputs if o)
    network = materialize(whole, 0)
    proto = to_onnx(
        CanonicalModel(whole.name, whole.layers, whole.inputs, seen, whole.tensors, whole.weights,
                       whole.constants, whole.opsets),
        network.weights,
    )  # fmt: skip
    results = ort.InferenceSession(proto.SerializeToString()).run(None, dict(network.inputs))
    for tensor, value in zip(seen, results, strict=True):
        assert np.isfinite(value).all(), tensor
        assert value.std() < 1e3, tensor
    logits = results[-2]
    assert logits.std() > 1e-3


def test_variances_are_positive_and_nothing_is_denormal():
    model = normalize(LightModels().load("resnet50"))
    for brick in BrickSet.of([model]).bricks.values():
        network = materialize(brick.model)
        for value in (*network.weights.values(), *network.inputs.values()):
            if value.dtype.kind == "f":
                assert ordinary(value)
        (layer,) = brick.model.layers
        if layer.op == "BatchNormalization":
            assert (network.weights[layer.inputs[4]] > 0.5).all()


@pytest.mark.parametrize(
    ("op", "domain_check"),
    [("Sqrt", lambda x: x > 0), ("Log", lambda x: x > 0), ("Acosh", lambda x: x >= 1),
     ("Atanh", lambda x: np.abs(x) < 1), ("Reciprocal", lambda x: x > 0)],
)  # fmt: skip
def test_functions_get_arguments_from_their_domain(op, domain_check):
    network = materialize(single(op, {"x": f(1000)}, {"y": f(1000)}))
    assert domain_check(network.inputs["x"]).all()
    (result,) = ReferenceEvaluator(to_onnx(network.model, {})).run(None, dict(network.inputs))
    assert np.isfinite(result).all()


@pytest.mark.parametrize(("shape", "both_signs"), [((1, 64, 1, 1), False), ((1, 9, 8), True)])
def test_a_weight_that_multiplies_is_a_scale_or_has_both_signs(shape, both_signs):
    model = single("Mul", {"x": f(*shape), "w": f(*shape)}, {"y": f(*shape)}, weights=("w",))
    values = materialize(model).weights["w"]
    assert (values.min() < 0 < values.max()) == both_signs
    assert both_signs or np.abs(values - 1).max() < 0.2


def test_indices_are_in_range_fed_or_held():
    table = {"table": f(7, 4), "ids": i64(50)}
    out = {"y": f(50, 4)}
    for weights in ((), ("table",), ("table", "ids")):
        model = single("Gather", table, out, {"axis": 0}, weights)
        network = materialize(model)
        values = {**network.inputs, **network.weights}
        assert values["ids"].min() >= 0
        assert values["ids"].max() == 6
        ReferenceEvaluator(to_onnx(model, network.weights)).run(None, dict(network.inputs))


def test_indices_of_several_axes_are_in_range_of_each():
    model = single(
        "GatherND", {"data": f(2, 9, 5), "at": i64(40, 2)}, {"y": f(40, 5)}, {"batch_dims": 0}
    )
    at = materialize(model).inputs["at"]
    assert at[:, 0].max() == 1
    assert 6 <= at[:, 1].max() <= 8


def test_an_axis_that_the_data_lack_is_refused_by_its_layer():
    table = {"data": f(3, 4), "at": i64(3, 4, 1)}
    model = single("GatherElements", table, {"y": f(3, 4, 1)}, {"axis": 2})
    with pytest.raises(ModelError, match="GatherElements does not fit its inputs: its data lack"):
        materialize(model)


def test_indices_are_recognized_through_layers_that_pass_them_on(builder):
    layers = (
        Layer("Unsqueeze", ("ids", "axes"), ("wide",)),
        Layer("Cast", ("wide",), ("cast",), {"to": 6, "saturate": 1}),
        Layer("Gather", ("table", "cast"), ("y",), {"axis": 0}),
    )
    tensors = {"ids": i64(20), "axes": i64(1), "wide": i64(1, 20), "table": f(3, 4),
               "cast": TensorSpec("int32", (1, 20)), "y": f(1, 20, 4)}  # fmt: skip
    model = CanonicalModel("m", layers, ("ids",), ("y",), tensors, frozenset({"axes", "table"}),
                           {"axes": np.array([0])})  # fmt: skip
    assert set(materialize(model).inputs["ids"].tolist()) == {0, 1, 2}


def test_integers_that_are_no_indices_are_ones():
    model = single("Mul", {"mask": i64(9), "x": i64(9)}, {"y": i64(9)})
    assert (materialize(model).inputs["mask"] == 1).all()


def test_known_constants_are_used_as_they_are():
    shape = np.array([2, 3])
    model = single("Reshape", {"x": f(6), "shape": i64(2)}, {"y": f(2, 3)}, weights=("shape",),
                   constants={"shape": shape})  # fmt: skip
    np.testing.assert_array_equal(materialize(model).weights["shape"], shape)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "bool", "uint8", "complex64"])
def test_every_type_has_values(dtype):
    spec = TensorSpec(dtype, (4, 5))
    value = materialize(single("Identity", {"x": spec}, {"y": spec})).inputs["x"]
    assert value.shape == (4, 5)
    assert np.isfinite(value.astype(complex)).all()


def test_opaque_layers_are_refused():
    opaque = CanonicalModel(
        "m",
        (Layer("Loop", ("x",), ("y",), opaque="subgraph", name="loop1"),),
        ("x",),
        ("y",),
        {"x": f(1), "y": f(1)},
    )
    with pytest.raises(ModelError, match=r"loop1.*subgraph"):
        materialize(opaque)


def test_arguments_of_roots_stay_positive_through_sums():
    layers = (Layer("ReduceSum", ("x",), ("s",)), Layer("Sqrt", ("s",), ("y",)))
    specs = {"x": f(1, 8, 4, 4), "s": f(1, 1, 1, 1), "y": f(1, 1, 1, 1)}
    model = CanonicalModel("norm", layers, ("x",), ("y",), specs)
    assert (materialize(model).inputs["x"] > 0).all()
    squeezed = Layer("Sigmoid", ("x",), ("s",))
    negative = CanonicalModel(
        "m", (squeezed, layers[1]), ("x",), ("y",), {**specs, "s": f(1, 8, 4, 4)}
    )
    assert (materialize(negative).inputs["x"] < 0).any()


def test_booleans_are_true_in_the_first_half_of_each_row():
    mask = TensorSpec("bool", (2, 1, 3, 5))
    model = single("Where", {"m": mask, "a": f(2, 1, 3, 5), "b": f(1)}, {"y": f(2, 1, 3, 5)},
                   weights=("m",))  # fmt: skip
    drawn = materialize(model).weights["m"]
    assert drawn.dtype == np.bool_
    assert (drawn == [True, True, True, False, False]).all()
    number = single("Not", {"m": TensorSpec("bool", ())}, {"y": TensorSpec("bool", ())})
    assert materialize(number).inputs["m"] == np.True_


def test_a_brick_keeps_known_masks():
    causal = np.tril(np.ones((4, 4), bool))
    tensors = {"m": TensorSpec("bool", (4, 4)), "a": f(4, 4), "b": f(1)}
    model = single("Where", tensors, {"y": f(4, 4)}, weights=("m",), constants={"m": causal})
    brick = extract(model, (0,), "brick")
    (mask,) = (name for name in brick.weights if brick.tensors[name].dtype == "bool")
    assert (materialize(brick).weights[mask] == causal).all()


def test_no_float16_is_denormal_or_infinite():
    wide = single("MatMul", {"x": TensorSpec("float16", (1, 4096)),
                             "w": TensorSpec("float16", (4096, 512))},
                  {"y": TensorSpec("float16", (1, 512))}, weights=("w",))  # fmt: skip
    drawn = np.abs(materialize(wide).weights["w"])
    assert np.isfinite(drawn).all()
    assert drawn[drawn > 0].min() == np.finfo(np.float16).smallest_normal


def test_float32_values_do_not_depend_on_what_float16_needs():
    def of(dtype):
        return single("MatMul", {"x": TensorSpec(dtype, (1, 64)), "w": TensorSpec(dtype, (64, 64))},
                      {"y": TensorSpec(dtype, (1, 64))}, weights=("w",))  # fmt: skip

    full, half = (materialize(of(dtype)).weights["w"] for dtype in ("float32", "float16"))
    assert np.abs(full - half.astype(np.float32)).max() < 1e-3


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_large_weights_of_short_floats_take_their_own_size(dtype):
    weight = TensorSpec(dtype, (8192, 8192))
    model = CanonicalModel(
        name="short",
        layers=(Layer("MatMul", ("x", "w"), ("y",)),),
        inputs=("x",),
        outputs=("y",),
        tensors={"x": TensorSpec(dtype, (1, 8192)), "w": weight, "y": TensorSpec(dtype, (1, 8192))},
        weights=frozenset({"w"}),
    )
    tracemalloc.start()
    drawn = materialize(model).weights["w"]
    _, taken = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert is_aligned(drawn)
    assert drawn.nbytes <= taken < 1.25 * drawn.nbytes


def convolution_of_codes(bias="float[4] w5", known=""):
    """A convolution whose image, filter and bias are kept as codes."""
    text = (
        f"(uint8[1,3,8,8] x, float w1, uint8 w2, int8[4,3,3,3] w3, float[4] w4, {bias},"
        " int32[4] w6) => (y)"
        f"{known} {{ a = DequantizeLinear(x, w1, w2)"
        " b = DequantizeLinear<axis=0>(w3, w4)"
        " c = DequantizeLinear<axis=0>(w6, w5)"
        " y = Conv(a, b, c) }"
    )
    return cases.build(text).model


def test_the_scale_of_a_bias_is_the_product_of_the_others():
    """ONNX Runtime computes with codes only then."""
    drawn = materialize(convolution_of_codes()).weights
    assert (drawn["w5"] == drawn["w1"] * drawn["w4"]).all()
    assert drawn["w5"].dtype == np.float32


@pytest.mark.parametrize(("known", "product"), [(3.1e-4, True), (0.02, False)])
def test_a_known_scale_of_a_bias_stays_unless_it_was_rounded(known, product):
    """Bricks hold numbers of two digits. What is no product in the model is none in the brick."""
    given = convolution_of_codes("float w5")
    scales = {"w1": 0.021, "w4": 0.0147, "w5": known}
    constants = {name: np.float32(value).reshape(()) for name, value in scales.items()}
    tensors = {**given.tensors, "w4": given.tensors["w1"]}
    drawn = materialize(replace(given, tensors=tensors, constants=constants)).weights
    assert drawn["w5"] == (constants["w1"] * constants["w4"] if product else constants["w5"])


def test_a_scale_that_a_bias_shares_with_a_filter_is_drawn():
    given = convolution_of_codes()
    shared = [
        replace(layer, inputs=tuple({"w5": "w4"}.get(name, name) for name in layer.inputs))
        for layer in given.layers
    ]
    model = replace(given, layers=tuple(shared), weights=given.weights - {"w5"})
    drawn = materialize(model).weights["w4"]
    assert ((drawn >= 0.01) & (drawn <= 0.02)).all()


def test_a_scale_of_another_shape_than_the_product_is_drawn():
    drawn = materialize(convolution_of_codes("float w5")).weights
    assert 0.01 <= drawn["w5"] <= 0.02
