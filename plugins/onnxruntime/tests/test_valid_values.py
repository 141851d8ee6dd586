"""Bricks run on valid values, whatever they begin with."""

import numpy as np
import pytest
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from dlbricks_testing.cases import build

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import extract
from dlbricks_core.values import materialize

ONE = "one = Constant<value_float=1.0>() axis = Constant<value_ints=[1]>()"

CASES = {
    "variance": f"(float[4,16] x) => (y) {{ {ONE} q = Mul(x, x) m2 = ReduceMean(q, axis)"
                " m = ReduceMean(x, axis) mm = Mul(m, m) v = Sub(m2, mm) s = Sqrt(v)"
                " y = Div(x, s) }",
    "logit": f"(float[4,16] x) => (y) {{ {ONE} p = Sigmoid(x) r = Sub(one, p) o = Div(p, r)"
             " y = Log(o) }",
    "sine": f"(float[4,16] x) => (y) {{ {ONE} c = Tanh(x) cc = Mul(c, c) d = Sub(one, cc)"
            " y = Sqrt(d) }",
    "cosine": "(float[4,16] x) => (y) { c = Tanh(x) d = Neg(c) y = Acos(d) }",
    "columns": "(float[6,3] x, float[5,2] w1, float[900,2] w2) => (y, z)"
               "{ s = Constant<value_ints=[1,1,1]>() a, b, z = Split<axis=1>(x, s)"
               " i = Cast<to=7>(a) j = Cast<to=7>(b) p = Gather(w1, i) q = Gather(w2, j)"
               " y = Concat<axis=2>(p, q) }",
    "boxes": "(int64[6,4] x, float[50,3] w1) => (y, z, u)"
             "{ s = Constant<value_ints=[1,1,1,1]>() a, b, c, d = Split<axis=1>(x, s)"
             " h = Sub(c, a) v = Sub(d, b) y = Gather(w1, h) z = Gather(w1, v)"
             " u = Gather(w1, d) }",
}  # fmt: skip


@pytest.fixture(scope="module")
def timer():
    return OnnxruntimeTimer(BackendSettings(1, {}))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("exact", [False, True], ids=["brick", "exact"])
def test_wherever_a_brick_begins_and_ends(name, exact, timer):
    model = build(CASES[name], name).model
    count = len(model.layers)
    for begin in range(count):
        for end in range(begin + 1, count + 1):
            brick = extract(model, range(begin, end), "brick", exact=exact)
            loaded = timer.load(materialize(brick))
            timer.run(loaded)
            for value in timer.outputs(loaded).values():
                assert np.isfinite(value).all(), (begin, end)
            timer.unload(loaded)
