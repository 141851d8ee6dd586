"""Inputs of bricks are valid where they are used, wherever a brick begins."""

import time
from dataclasses import replace

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from dlbricks_core.bricks import extract
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, read_model, to_onnx
from dlbricks_core.operators import operator
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

HEADER = '<ir_version: 10, opset_import: ["" : 21]> graph '


def textual(text):
    """A model in ONNX's text form; what begins with ``w`` is a weight."""
    raw = read_model(onnx.parser.parse_model(HEADER + text), name="text")
    weights = raw.weights | {name for name in raw.inputs if name.startswith("w")}
    fed = tuple(name for name in raw.inputs if name not in weights)
    return normalize(replace(raw, inputs=fed, weights=frozenset(weights)))


def computed(network):
    """Every tensor of a network, by the reference evaluator; indices are looked at as well."""
    model = network.model
    names = tuple(name for layer in model.layers for name in layer.outputs if name)
    proto = to_onnx(replace(model, outputs=names), network.weights)
    results = ReferenceEvaluator(proto).run(None, dict(network.inputs))
    found = {**network.weights, **network.inputs, **dict(zip(names, results, strict=True))}
    for layer in model.layers:
        for position, facts in enumerate(operator(layer.qualified_op).inputs):
            if facts.below is None or position >= len(layer.inputs) or not layer.inputs[position]:
                continue
            indices = found[layer.inputs[position]]
            most = facts.below(layer, model.specs(layer.inputs), model.specs(layer.outputs))
            assert (indices >= 0).all()
            assert (indices < np.asarray(most)).all()
    return found


def segments(model):
    """Every run of consecutive layers, as a brick and as a model of its own."""
    count = len(model.layers)
    for begin in range(count):
        for end in range(begin + 1, count + 1):
            for exact in (False, True):
                yield extract(model, range(begin, end), f"{begin}-{end}", exact=exact)


FUNCTIONS = {
    "log_mel": """(float[1,20,33] x, float[33,8] w) => (y) {
        p = Mul(x, x) m = MatMul(p, w) y = Log(m) }""",
    "log_mel_with_a_floor": """(float[33,20] x, float[8,33] w) => (y) {
        e = Constant<value_float=0.000001>() p = Mul(x, x) m = MatMul(w, p) a = Add(m, e)
        y = Log(a) }""",
    "spectrum": """(float[1,1,256] x, float[9,1,16] wr, float[9,1,16] wi, float[6,9] wm) => (y) {
        r = Conv<strides=[8]>(x, wr) i = Conv<strides=[8]>(x, wi) r2 = Mul(r, r) i2 = Mul(i, i)
        p = Add(r2, i2) m = MatMul(wm, p) y = Log(m) }""",
    "root_of_padded_convolution": """(float[1,3,9,9] x, float[4,3,3,3] w, float[4] wb) => (y) {
        p = Abs(x) c = Conv<pads=[1,1,1,1]>(p, w, wb) y = Sqrt(c) }""",
    "power_behind_products": """(float[5,16] x, float[16,8] w, float[8] wb, float[8,4] wv) => (y) {
        e = Constant<value_float=0.3>() g = Gemm<alpha=-1.0>(x, w, wb) m = MatMul(g, wv)
        y = Pow(m, e) }""",
    "negated_products": """(float[5,16] x, float[16,8] w) => (y) {
        p = Exp(x) m = MatMul(p, w) n = Neg(m) y = Sqrt(n) }""",
    "two_inputs": """(float[5,16] x, float[16,8] z) => (y) {
        p = Einsum<equation="ij,jk->ki">(x, z) y = Log(p) }""",
    "arc_of_products": """(float[5,16] x, float[16,8] w) => (y) {
        p = Softmax<axis=1>(x) m = MatMul(p, w) y = Acos(m) }""",
    "transposed_convolution": """(float[1,4,6,6] x, float[4,2,3,3] w) => (y) {
        p = Relu(x) c = ConvTranspose<strides=[2,2]>(p, w) y = Sqrt(c) }""",
    "variance": """(float[4,16] x) => (y) { one = Constant<value_ints=[1]>()
        q = Mul(x, x) m2 = ReduceMean(q, one) m = ReduceMean(x, one) mm = Mul(m, m)
        v = Sub(m2, mm) s = Sqrt(v) y = Div(x, s) }""",
    "logit": """(float[4,16] x) => (y) { one = Constant<value_float=1.0>()
        p = Sigmoid(x) r = Sub(one, p) o = Div(p, r) y = Log(o) }""",
    "sine": """(float[4,16] x) => (y) { one = Constant<value_float=1.0>()
        c = Tanh(x) cc = Mul(c, c) d = Sub(one, cc) y = Sqrt(d) }""",
    "arcs": """(float[4,16] x) => (a, b, c) { two = Constant<value_float=2.0>()
        t = Tanh(x) n = Neg(t) a = Acos(n) h = Div(n, two) b = Atanh(h)
        e = Exp(h) s = Add(e, two) c = Acosh(s) }""",
    "power": """(float[4,16] x) => (y) { half = Constant<value_float=0.5>()
        a = Abs(x) b = Mul(a, half) y = Pow(b, half) }""",
    "gap": """(float[4,16] a, float[4,16] b) => (y) { three = Constant<value_float=3.0>()
        d = Sub(a, b) e = Sub(d, three) r = Reciprocal(e) y = Log(r) }""",
    "entropy": """(float[4,16] x) => (y) { one = Constant<value_ints=[1]>()
        e = Exp(x) s = ReduceSum(e, one) p = Div(e, s) l = Log(p) m = Mul(p, l)
        n = ReduceSum(m, one) y = Neg(n) }""",
    "harmonic": """(float[4,16] x, float[4,16] z) => (y) { one = Constant<value_float=1.0>()
        a = Reciprocal(x) b = Reciprocal(z) c = Add(a, b) d = Div(one, c) y = Sqrt(d) }""",
    "remainder": """(int64[4,16] a, int64[4,16] b) => (y) { d = Sub(a, b) m = Mod(a, d)
        y = Div(m, d) }""",
    "between": """(float[4,16] x, float[16] w) => (y) { one = Constant<value_float=1.0>()
        zero = Constant<value_float=0.0>()
        s = Add(x, w) m = Max(s, zero) n = Min(m, one) d = Sub(one, n) y = Log(d) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_are_of_the_domain_wherever_a_brick_begins(name):
    for brick in segments(textual(FUNCTIONS[name])):
        with np.errstate(all="raise", under="ignore"):
            for tensor, value in computed(materialize(brick)).items():
                assert np.isfinite(value).all(), (brick.name, tensor)


INDICES = {
    "shifted": """(int64[5] x, float[9,2] w) => (y) { c = Constant<value_int=3>()
        i = Add(x, c) y = Gather(w, i) }""",
    "scaled": """(float[6] x, float[40,2] w) => (y) { c = Constant<value_float=39.0>()
        s = Sigmoid(x) m = Mul(s, c) r = Round(m) i = Cast<to=7>(r) y = Gather(w, i) }""",
    "coordinates": """(float[6] x, float[40,2] w) => (y) { c = Constant<value_float=20.0>()
        m = Mul(x, c) p = Add(m, c) f = Floor(p) i = Cast<to=6>(f) y = Gather(w, i) }""",
    "differences": """(int64[3,4] x, float[11,2] w1, float[20,2] w2) => (a, b, c, d) {
        s = Constant<value_ints=[1,1,1,1]>()
        p, q, r, t = Split<axis=1>(x, s) h = Sub(r, p) v = Sub(t, q)
        a = Gather(w1, h) b = Gather(w2, v) c = Gather(w1, p) d = Gather(w1, t) }""",
    "chosen": """(int64[6] x, int64[6] z, float[7,2] w) => (y) { zero = Constant<value_int=0>()
        n = Constant<value_int=7>() l = Less(x, zero) k = Add(x, n) i = Where(l, k, x)
        g = Greater(z, i) j = Where(g, z, i) y = Gather(w, j) }""",
    "joined": """(int64[4] x, int32[3] z, float[5,2] w) => (y) { t = Cast<to=7>(z)
        c = Concat<axis=0>(x, t) s = Constant<value_ints=[7,1]>() r = Reshape(c, s)
        e = Constant<value_ints=[7,2]>() k = Expand(r, e) p = Transpose<perm=[1,0]>(k)
        y = Gather(w, p) }""",
    "counted": """(int64[1,8] mask, float[12,2] w) => (y) { axis = Constant<value_int=1>()
        one = Constant<value_int=1>() c = CumSum(mask, axis) m = Mul(c, mask) i = Add(m, one)
        y = Gather(w, i) }""",
    "hashed": """(int64[6] x, float[5,2] w) => (y) { n = Constant<value_int=5>()
        three = Constant<value_int=3>() m = Mul(x, three) a = Abs(m) i = Mod(a, n)
        y = Gather(w, i) }""",
    "limited": """(int64[6] x, int64[6] z, float[5,2] w) => (y) {
        zero = Constant<value_int=0>() four = Constant<value_int=4>() d = Sub(x, z)
        a = Max(d, zero) i = Min(a, four) y = Gather(w, i) }""",
    "best": """(float[3,8] x, float[8,2] w, float[3,8] z) => (y, e) { k = Constant<value_ints=[2]>()
        v, i = TopK(x, k) y = Gather(w, i) a = ArgMax<axis=1>(x) e = GatherElements<axis=1>(z, a)
        }""",
    "several": """(float[4,6,2] x, int64[5,2] i, int64[5,2] j, float[5,2] u) => (y, z) {
        k = Add(i, j) y = GatherND(x, k) z = ScatterND(x, i, u) }""",
    "lengths": """(float[5,3,2] x, int32[3] n, int32[3] m, float[1,8,2] w1, float[1,8,2] w2) => (y)
        { k = Sub(n, m) b = Constant<value_floats=[0.0]>() y, h, c =
          LSTM<hidden_size=2>(x, w1, w2, , k) }""",
    "reversed": """(float[5,3,2] x, int64[3] n) => (y) { two = Constant<value_int=2>()
        k = Mul(n, two) y = ReverseSequence<batch_axis=1, time_axis=0>(x, k) }""",
    "regions": """(float[2,3,8,8] x, float[4,4] r, float[4] b) => (y) { f = Round(b)
        i = Cast<to=7>(f) y = RoiAlign<output_height=2, output_width=2>(x, r, i) }""",
    "shifts": """(uint8[6] x, uint8[6] n, float[16,2] w) => (y) {
        s = BitShift<direction="RIGHT">(x, n) i = Cast<to=7>(s) y = Gather(w, i) }""",
    "tiled": """(int64[2,2] x, float[7,2] w) => (y) { r = Constant<value_ints=[1,3]>()
        t = Tile(x, r) a = Constant<value_ints=[1]>() m = ReduceMax<keepdims=0>(t, a)
        n = Neg(m) p = Abs(n) y = Gather(w, p) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_indices_are_in_range_wherever_a_brick_begins(name):
    for brick in segments(textual(INDICES[name])):
        computed(materialize(brick))


def recommender(rows, numbers=3, batch=64):
    """Tables that columns of one float input point into; the last columns are numbers."""
    columns = len(rows) + numbers
    fed = ", ".join(f"float[{n},4] w{i}" for i, n in enumerate(rows))
    looked = " ".join(
        f"s{i} = Constant<value_ints=[{i}]>() e{i} = Constant<value_ints=[{i + 1}]>()"
        f" c{i} = Slice(x, s{i}, e{i}, axis) i{i} = Cast<to=7>(c{i}) v{i} = Gather(w{i}, i{i})"
        for i in range(len(rows))
    )
    return textual(
        f"(float[{batch},{columns}] x, {fed}) => (y, r) {{ axis = Constant<value_ints=[1]>() "
        f"{looked} b = Constant<value_ints=[{len(rows)}]>() d = Constant<value_ints=[{columns}]>()"
        f" n = Slice(x, b, d, axis) r = Tanh(n)"
        f" y = Concat<axis=1>({', '.join(f'v{i}' for i in range(len(rows)))}) }}"
    )


def test_columns_of_one_input_point_into_tables_of_their_own():
    rows = (3, 1000, 17, 50_000, 1)
    network = materialize(recommender(rows))
    computed(network)
    x = network.inputs["x"]
    for column, count in enumerate(rows):
        assert x[:, column].max() > 0.8 * (count - 1)
        assert len(np.unique(np.trunc(x[:, column]))) > min(count, 40) / 2
    assert (x[:, len(rows) :] < 0).any()


@pytest.mark.long
def test_values_of_large_tensors_are_valid_everywhere():
    network = materialize(recommender((3, 1000), batch=2**23))
    x = network.inputs["x"]
    assert x.min() >= 0
    assert x.max() < 3


@pytest.mark.long
def test_boxes_have_their_ends_in_order():
    """As in LayoutLM: four coordinates, and indices of width and height."""
    picks = " ".join(
        f"k{i} = Constant<value_int={i}>() c{i} = Gather<axis=2>(box, k{i}) "
        f"y{i} = Gather(w{i % 2}, c{i})"
        for i in range(4)
    )
    model = textual(
        "(int64[1,32,4] box, float[100,4] w0, float[100,4] w1, float[100,4] w2) => "
        f"(y0, y1, y2, y3, y4, y5) {{ {picks} h = Sub(c3, c1) v = Sub(c2, c0)"
        " y4 = Gather(w2, h) y5 = Gather(w2, v) }"
    )
    for brick in segments(model):
        computed(materialize(brick))
    box = materialize(model).inputs["box"]
    assert (box[..., 2:] >= box[..., :2]).all()
    assert len(np.unique(box)) > 30


def test_values_stay_as_they_are_if_no_range_makes_them_valid():
    text = """(float[4,16] x) => (y) {{ one = Constant<value_ints=[1]>() q = Mul(x, x)
        m2 = ReduceMean(q, one) m = ReduceMean(x, one) mm = Mul(m, m) v = Sub(m2, mm)
        y = {}(v) }}"""
    plain, root = (textual(text.format(op)) for op in ("Relu", "Sqrt"))
    np.testing.assert_array_equal(materialize(plain).inputs["x"], materialize(root).inputs["x"])
    hopeless = textual("(float[4] x) => (y) { n = Abs(x) m = Neg(n) y = Log(m) }")
    assert (materialize(hopeless).inputs["x"] < 0).any()


def test_indices_do_not_depend_on_the_seed_of_the_weights():
    """A copy of a network runs on the inputs of another seed."""
    model = textual("""(int64[9,4] x, float[12,2] w1, float[30,2] w2, int64 w3, int64 w4)
        => (a, b) { c = Gather<axis=1>(x, w3) d = Gather<axis=1>(x, w4)
        a = Gather(w1, c) b = Gather(w2, d) }""")
    fed = materialize(model, 0)
    for seed in range(1, 5):
        computed(replace(materialize(model, seed), inputs=fed.inputs))


def test_bricks_do_not_round_scalars_that_indices_are_computed_with():
    model = textual("""(float[6,4] x, float[4,3] w1, float[97,2] w2) => (y) {
        a = Constant<value_float=0.963>() low = Constant<value_float=0.0>()
        high = Constant<value_float=1.0>() c = Constant<value_float=96.0>()
        s = Mul(x, a) m = MatMul(s, w1) k = Clip(m, low, high) j = Mul(k, c) r = Round(j)
        i = Cast<to=7>(r) y = Gather(w2, i) }""")
    brick = extract(model, range(len(model.layers)), "brick")
    assert 96.0 in [float(value) for value in brick.constants.values() if value.size == 1]
    unrelated = extract(model, (0,), "scaling")
    assert [float(value) for value in unrelated.constants.values()] == [np.float32(0.96)]
    for each in segments(model):
        computed(materialize(each))


def test_tables_without_rows_and_inputs_without_elements_get_values():
    spec = TensorSpec("int64", (0, 3))
    table, rows = TensorSpec("float32", (4, 2)), TensorSpec("float32", (0, 3, 2))
    layers = (Layer("Add", ("x", "z"), ("i",)), Layer("Gather", ("w", "i"), ("y",), {"axis": 0}))
    tensors = {"x": spec, "z": TensorSpec("int64", (1, 3)), "i": spec, "w": table, "y": rows}
    model = CanonicalModel("empty", layers, ("x", "z"), ("y",), tensors, frozenset({"w"}))
    assert computed(materialize(model))["y"].shape == (0, 3, 2)


def chain(*operators):
    names = [f"t{i}" for i in range(len(operators) + 1)]
    layers = [Layer(op, (names[i],), (names[i + 1],)) for i, op in enumerate(operators)]
    spec = TensorSpec("float32", (2, 8))
    return CanonicalModel("chain", tuple(layers), names[:1], names[-1:], dict.fromkeys(names, spec))


@pytest.mark.long
@pytest.mark.parametrize("operators", [("Tanh", "Neg"), ("Sqrt", "Exp")])
def test_ten_thousand_layers_take_seconds(operators):
    model = chain(*(5000 * operators), "Log")
    begin = time.perf_counter()
    materialize(model)
    assert time.perf_counter() - begin < 20


def test_many_ways_from_an_input_to_a_table_take_no_long_time():
    turns = "".join(
        f" a{i} = Slice(x{i}, three, all, zero) c{i} = Slice(x{i}, zero, three, zero)"
        f" x{i + 1} = Concat<axis=0>(a{i}, c{i})"
        for i in range(32)
    )
    model = textual(
        "(int64[16] x0, float[50,8] w) => (y) { zero = Constant<value_ints=[0]>()"
        " three = Constant<value_ints=[3]>() all = Constant<value_ints=[16]>()"
        f"{turns} y = Gather(w, x32) }}"
    )
    begin = time.perf_counter()
    network = materialize(model)
    assert time.perf_counter() - begin < 5
    assert network.inputs["x0"].max() > 30
    computed(network)
