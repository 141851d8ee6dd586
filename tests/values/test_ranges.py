"""Ranges of values: sound forwards, and sufficient backwards."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, to_onnx
from dlbricks_core.operators.ranges.interval import Range
from dlbricks_core.values.ranges import Propagation, demands

SHAPE = (3, 4)


class Graph:
    """Builds models in canonical form, of tensors that mostly have one shape."""

    def __init__(self):
        self.layers, self.tensors, self.constants = [], {}, {}
        self.inputs, self.weights = [], []

    def fed(self, dtype="float32", shape=SHAPE):
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.tensors[name] = TensorSpec(dtype, shape)
        return name

    def weight(self, dtype="float32", shape=SHAPE, value=None):
        name = f"w{len(self.weights)}"
        self.weights.append(name)
        if value is not None:
            self.constants[name] = value = np.asarray(value, dtype)
            shape = value.shape
        self.tensors[name] = TensorSpec(dtype, shape)
        return name

    def add(self, op, *inputs, dtype=None, shape=SHAPE, **attributes):
        name = f"t{len(self.layers)}"
        self.layers.append(Layer(op, inputs, (name,), attributes, name=name))
        self.tensors[name] = TensorSpec(dtype or self.tensors[inputs[0]].dtype, shape)
        return name

    def cut(self, x, axis, start, end, stride=1):
        """A slice."""
        sizes = list(self.tensors[x].shape)
        sizes[axis] = len(range(sizes[axis])[start:end:stride])
        values = [self.weight("int64", value=[v]) for v in (start, end, axis, stride)]
        return self.add("Slice", x, *values, shape=tuple(sizes))

    def model(self):
        read = {name for layer in self.layers for name in layer.inputs}
        return CanonicalModel(
            "graph", tuple(self.layers), tuple(self.inputs),
            tuple(layer.outputs[0] for layer in self.layers if layer.outputs[0] not in read),
            self.tensors, frozenset(self.weights), self.constants, {"": 21},
        )  # fmt: skip


def computed(model, values):
    """Every tensor, by the reference evaluator."""
    names = [name for layer in model.layers for name in layer.outputs]
    whole = CanonicalModel(model.name, model.layers, model.inputs, tuple(names), model.tensors,
                           model.weights, model.constants, model.opsets)  # fmt: skip
    weights = {**values, **model.constants}
    evaluator = ReferenceEvaluator(to_onnx(whole, {n: weights[n] for n in model.weights}))
    with np.errstate(all="ignore"):
        results = evaluator.run(None, {n: values[n] for n in model.inputs})
    return {**weights, **dict(zip(names, results, strict=True))}


# Random graphs

UNARY = ("Abs", "Asinh", "Atan", "Ceil", "Cosh", "Elu", "Exp", "Floor", "Identity", "LeakyRelu",
         "Neg", "Relu", "Round", "Sigmoid", "Sin", "Sinh", "Softplus", "Tanh", "Erf", "Softsign",
         "Softmax", "Sqrt", "Log", "Reciprocal", "Acos", "Asin", "Atanh", "Acosh")  # fmt: skip
EXPONENTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 1.5)
ENDS = ("Gather", "Sqrt", "Log", "Acos", "Asin", "Atanh", "Acosh", "Div", "Reciprocal", "Pow",
        "Mod")  # fmt: skip


@st.composite
def graphs(draw):
    g = Graph()
    floats = [g.fed() for _ in range(draw(st.integers(1, 2)))]
    wholes = [g.fed("int64") for _ in range(draw(st.integers(0, 1)))]
    if draw(st.booleans()):
        floats.append(g.weight())
    floats.append(g.weight(value=np.float32(draw(st.sampled_from((0.5, 1.0, -3.0, 100.0))))))
    for _ in range(draw(st.integers(1, 7))):
        made = draw(st.sampled_from(STEPS))(draw, g, floats, wholes)
        (wholes if g.tensors[made].dtype == "int64" else floats).append(made)
    every = [name for name in floats + wholes if name not in g.weights]
    for _ in range(draw(st.integers(1, 2))):
        end = draw(st.sampled_from(ENDS))
        x = every[-1] if draw(st.booleans()) else draw(st.sampled_from(every))
        if end == "Gather":
            if g.tensors[x].dtype != "int64":
                x = g.add("Cast", x, dtype="int64", to=7)
            table = g.weight(shape=(draw(st.integers(1, 40)), 2))
            g.add("Gather", table, x, shape=(*SHAPE, 2), axis=0)
        else:
            if g.tensors[x].dtype == "int64":
                x = g.add("Cast", x, dtype="float32", to=1)
            if end == "Pow":
                g.add("Pow", x, g.weight(value=np.float32(draw(st.sampled_from(EXPONENTS)))))
            elif end in ("Div", "Mod"):
                g.add(end, g.weight(), x, fmod=1) if end == "Mod" else g.add(end, g.weight(), x)
            else:
                g.add(end, x)
    return g.model()


def unary(draw, g, floats, wholes):
    op = draw(st.sampled_from(UNARY))
    attributes = {"LeakyRelu": {"alpha": 0.1}, "Elu": {"alpha": 0.5}, "Softmax": {"axis": 1}}
    return g.add(op, full(g, draw(st.sampled_from(floats))), **attributes.get(op, {}))


def full(g, x):
    """Scalars become tensors of the common shape."""
    if g.tensors[x].shape == SHAPE:
        return x
    return g.add("Expand", x, g.weight("int64", value=SHAPE), shape=SHAPE)


def binary(draw, g, floats, wholes):
    op = draw(st.sampled_from(("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean")))
    pair = draw(st.sampled_from(floats)), draw(st.sampled_from(floats))
    if op == "Mean":  # the evaluator adds to its first operand, in place
        pair = [full(g, x) for x in pair]
    shape = np.broadcast_shapes(*(g.tensors[x].shape for x in pair))
    return full(g, g.add(op, *pair, shape=shape))


def of_wholes(draw, g, floats, wholes):
    if not wholes:
        return g.add("Cast", full(g, draw(st.sampled_from(floats))), dtype="int64", to=7)
    op = draw(st.sampled_from(("Add", "Sub", "Mul", "Max", "Min", "Neg", "Abs", "Mod", "Cast")))
    x = draw(st.sampled_from(wholes))
    if op == "Cast":
        return g.add("Cast", x, dtype="float32", to=1)
    if op in ("Neg", "Abs"):
        return g.add(op, x)
    if op == "Mod":
        return g.add("Mod", x, g.weight("int64", value=draw(st.integers(1, 9))), fmod=0)
    return g.add(op, x, draw(st.sampled_from(wholes)))


def moved(draw, g, floats, wholes):
    x = full(g, draw(st.sampled_from(floats + wholes)))
    kind = draw(st.sampled_from(("flip", "swap", "turn", "pick", "roll", "double", "pad")))
    if kind == "flip":
        return g.cut(x, 1, -1, -5, -1)
    if kind == "swap":
        parts = [g.cut(x, 1, 2, 4), g.cut(x, 1, 0, 2)]
        return g.add("Concat", *parts, axis=1)
    if kind == "turn":
        turned = g.add("Transpose", x, perm=(1, 0), shape=(4, 3))
        return g.add("Reshape", turned, g.weight("int64", value=SHAPE), allowzero=0)
    if kind == "pick":
        return g.add("Gather", x, g.weight("int64", value=[3, 0, 0, 1]), axis=1)
    if kind == "double":
        part = g.add("Tile", g.cut(x, 0, 0, 1), g.weight("int64", value=[3, 1]))
        return g.add("Expand", part, g.weight("int64", value=SHAPE))
    if kind == "pad":
        part = g.cut(x, 1, 1, 4)
        return g.add("Pad", part, g.weight("int64", value=[0, 1, 0, 0]), mode="constant")
    other = full(g, draw(st.sampled_from(floats if x in floats else wholes or [x])))
    if g.tensors[other].dtype != g.tensors[x].dtype:
        other = x
    parts = [g.cut(x, 1, 0, 1), g.cut(other, 1, 1, 4)]
    return g.add("Concat", *parts, axis=1)


def reduced(draw, g, floats, wholes):
    op = draw(st.sampled_from(("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare",
                               "LogSumExp")))  # fmt: skip
    x = full(g, draw(st.sampled_from(floats)))
    axes = g.weight("int64", value=[1])
    made = g.add(f"Reduce{op}", x, axes, shape=(3, 1), keepdims=1, noop_with_empty_axes=0)
    return full(g, made)


def limited(draw, g, floats, wholes):
    x = full(g, draw(st.sampled_from(floats)))
    kind = draw(st.sampled_from(("Clip", "CumSum", "Pow", "Where")))
    if kind == "Clip":
        ends = [g.weight(value=np.float32(v)) for v in (-0.5, 2.0)]
        return g.add("Clip", x, *ends)
    if kind == "CumSum":
        axis = g.weight("int64", value=draw(st.integers(0, 1)))
        return g.add("CumSum", x, axis, exclusive=draw(st.integers(0, 1)), reverse=0)
    if kind == "Pow":
        return g.add("Pow", x, g.weight(value=np.float32(draw(st.sampled_from(EXPONENTS)))))
    other = full(g, draw(st.sampled_from(floats)))
    condition = g.add(draw(st.sampled_from(("Less", "Greater", "Equal"))), x, other, dtype="bool")
    return g.add("Where", condition, x, other, dtype="float32")


def product(draw, g, floats, wholes):
    x = full(g, draw(st.sampled_from(floats)))
    kind = draw(st.sampled_from(("MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "both")))
    if kind == "Gemm":
        scales = {"alpha": draw(st.sampled_from((1.0, -0.5))), "beta": 2.0}
        added = g.weight(shape=(1, 4))
        return g.add("Gemm", x, g.weight(shape=(4, 4)), added, transA=0, transB=0, **scales)
    if kind == "Einsum":
        return g.add("Einsum", x, g.weight(shape=(4, 4)), equation="ij,jk->ik")
    if kind == "both":
        turned = g.add(
            "Transpose", full(g, draw(st.sampled_from(floats))), perm=(1, 0), shape=(4, 3)
        )
        square = g.add("MatMul", x, turned, shape=(3, 3))
        return g.add("MatMul", square, x)
    if kind == "MatMul":
        return g.add("MatMul", g.weight(shape=(3, 3)), x)
    image = g.add("Reshape", x, g.weight("int64", value=(1, 3, 4)), shape=(1, 3, 4), allowzero=0)
    sizes = {"strides": (1,), "dilations": (1,), "group": 1, "pads": (1, 1)}
    bias = g.weight(shape=(3,))
    made = g.add(kind, image, g.weight(shape=(3, 3, 3)), bias, shape=(1, 3, 4), **sizes)
    return g.add("Reshape", made, g.weight("int64", value=SHAPE), allowzero=0)


STEPS = (
    product,
    product,
    unary,
    unary,
    binary,
    binary,
    of_wholes,
    of_wholes,
    moved,
    moved,
    reduced,
    limited,
)


def default(model):
    def of(name):
        if model.tensors[name].dtype == "float32":
            return Range.of(-1.7, 1.7, smooth=True)
        return Range.of(1, 1)

    return of


@pytest.mark.long
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(model=graphs(), seed=st.integers(0, 9))
def test_values_lie_in_their_computed_ranges(model, seed):
    wanted = tuple(demands(model, model.constants))
    with np.errstate(all="ignore"):
        passed = Propagation(model, default(model), model.constants, wanted)
        changed = passed.settled()
        names = (*model.inputs, *(model.weights - model.constants.keys()))
        current = {name: changed.get(name) or default(model)(name) for name in names}
        ranges = passed.forward(current)
    rng = np.random.default_rng(seed)
    values = {}
    for name, each in current.items():
        spec = model.tensors[name]
        # The ends of a range are the hardest.
        share = rng.choice([0.0, 1.0, rng.random()], spec.sizes)
        if each.smooth:
            share += 1e-3 * (rng.random(spec.sizes) - share)
        value = each.low + share * (each.high - each.low)
        if spec.dtype == "int64":
            value = np.round(value)
        values[name] = np.clip(value, each.low, each.high).astype(spec.dtype)
    invalid = {each.tensor for each in wanted if not each.met(ranges[each.tensor])}
    doubtful = leading_from(model, invalid)
    try:
        found = computed(model, values)
    except IndexError:
        overflown = {name for name, each in ranges.items() if np.isinf(each.high).any()}
        doubtful |= leading_from(model, overflown)
        assert any(each.index and each.tensor in doubtful for each in wanted)
        return
    # Nothing is claimed about values that follow from overflows.
    endless = {n for n in ranges if not np.isfinite(found[n].astype(float)).all()}
    doubtful |= leading_from(model, endless)
    for name in ranges.keys() - doubtful:
        value = found[name].astype(float)
        slack = 1e-5 * np.abs(value) + 1e-5
        assert not (value < ranges[name].low - slack).any(), (name, ranges[name], value)
        assert not (value > ranges[name].high + slack).any(), (name, ranges[name], value)
    for each in wanted:
        if each.tensor not in doubtful:
            ends = [domain.valid for domain in each.domains]
            value = found[each.tensor]
            valid = np.any([(value >= e.low) & (value <= e.high) for e in ends], axis=0)
            # Differences of nearly equal numbers cancel: their squares may be zero by accident.
            accident = (value == 0) & (ranges[each.tensor].low < 1e-9) & (not each.index)
            assert (valid | accident).all(), (each, value)


def leading_from(model, tensors):
    """The tensors that are not shown to be valid, and all that is computed from one."""
    reached = set(tensors)
    for layer in model.layers:
        if not reached.isdisjoint(layer.inputs):
            reached.update(layer.outputs)
    return reached
