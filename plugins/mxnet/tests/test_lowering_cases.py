"""Every operator of the table, over the cases that the onnx package ships for it."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from dlbricks_contrib.expand import DEFINITIONS
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.check import unsupported
from dlbricks_mxnet.lowering import LOWERINGS
from dlbricks_mxnet.timer import MxnetTimer
from dlbricks_testing.operators import operators_with_layers
from onnx import defs, numpy_helper

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import read_model
from dlbricks_core.operators.table import operator
from dlbricks_core.passes import normalize

# Inputs that are weights in any model; the cases feed them.
WEIGHT_INPUTS = {
    "BatchNormalization": (1, 2, 3, 4),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "GRU": (1, 2, 3, 5),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3, 5, 6, 7),
    "LayerNormalization": (1, 2),
    "OneHot": (1, 2),
    "PRelu": (1,),
    "RNN": (1, 2, 3, 5),
}

# What MXNet cannot hold at all, whatever the operator.
NO_SUCH_TENSOR = re.compile(
    r"no element type|does not compute with|without elements|unknown shape|more than \d axes"
)

# What MXNet has no exact counterpart for: cases by name, and the reason that is given.
KNOWN_UNSUPPORTED = {
    r"attention_.*(qk_matmul|output_mode)": r"qk_matmul_output_mode|output 3",
    r"attention_.*(padded_kv|nonpad|ext_cache)": r"padded keys and values",
    r"attention_.*window": r"window_size",
    r"col2im_5d|gridsample_volumetric": r"of volumes",
    r"gridsample_.*(reflection|bicubic)": r"GridSample: MXNet has no mode",
    r"maxpool_with_argmax": r"positions of the maxima",
    r"quantizelinear_blocked": r"by blocks",
    r"einsum_batch_diagonal": r"along a diagonal",
    r"pow_types_int64": r"64-bit integers",
    r"scatter(nd|_elements)_.*(mul|max|min)": r"does not reduce by",
}

LEAST_PASSING = 1094


@dataclass(frozen=True)
class Outcome:
    """What became of one case: ``pass``, ``unsupported``, ``not imported`` or ``wrong``."""

    operators: frozenset[str]
    kind: str
    reason: str = ""


@pytest.fixture(scope="module")
def outcomes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero while they are made
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    found = {}
    for case in cases:
        inputs, outputs = (list(map(_array, values)) for values in case.data_sets[0])
        found[case.name] = _outcome(case.model, inputs, outputs)
    return found


def _array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _outcome(proto, inputs, expected):
    operators = frozenset(node.op_type for node in proto.graph.node)
    try:
        proto, values = _with_weights(proto, inputs)
        model = normalize(read_model(proto, name="case"))
    except Exception as error:  # noqa: BLE001  the IR's tests are elsewhere
        return Outcome(operators, "not imported", str(error))
    if not model.layers or any(layer.opaque for layer in model.layers):
        return Outcome(operators, "not imported", "nothing to run")
    given = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    network = Network(model, {**given, **model.constants}, values)
    reasons = unsupported(model)
    try:
        results = _run(network)
    except UnsupportedError as error:
        kind = "unsupported" if reasons else "wrong"
        return Outcome(operators, kind, str(error))
    except Exception as error:  # noqa: BLE001  whatever MXNet raises is a failed case
        return Outcome(operators, "wrong", f"{type(error).__name__}: {error}")
    if reasons:
        return Outcome(operators, "wrong", f"runs, yet is said not to: {reasons}")
    for name, wanted in zip(model.outputs, expected, strict=True):
        difference = _difference(results[name], np.asarray(wanted))
        if difference:
            return Outcome(operators, "wrong", f"{name}: {difference}")
    return Outcome(operators, "pass")


def _with_weights(proto, inputs):
    """Turns inputs that are parameters or weights into initializers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    values = dict(zip([value.name for value in copy.graph.input], inputs, strict=True))
    fixed = {
        node.input[i]
        for node in copy.graph.node
        for i in (*operator(node.op_type).parameters, *WEIGHT_INPUTS.get(node.op_type, ()))
        if i < len(node.input) and node.input[i] in values
    }
    copy.graph.initializer.extend(numpy_helper.from_array(values[n], n) for n in sorted(fixed))
    kept = [value for value in copy.graph.input if value.name not in fixed]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy, {name: value for name, value in values.items() if name not in fixed}


def _run(network):
    timer = MxnetTimer(BackendSettings())
    loaded = timer.load(network)
    timer.run(loaded)
    return timer.outputs(loaded)


def _difference(result, wanted):
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return f"{result.dtype}{result.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind in "biu":
        same = np.array_equal(result, wanted)
    else:
        atol = 1e-3 if wanted.dtype == np.float16 else 1e-6
        wide = result.astype(np.float64), wanted.astype(np.float64)
        same = np.allclose(*wide, rtol=1e-3, atol=atol, equal_nan=True)
    return "" if same else f"{result.ravel()[:4]} instead of {wanted.ravel()[:4]}"


def _is_known(name, reason):
    if NO_SUCH_TENSOR.search(reason):
        return True
    return any(
        re.search(case, name) and re.search(why, reason) for case, why in KNOWN_UNSUPPORTED.items()
    )


@pytest.mark.parametrize("operator", sorted(LOWERINGS))
def test_cases_of_operator_are_right_or_known_as_unsupported(outcomes, operator):
    alone = {n: o for n, o in outcomes.items() if o.operators == {operator}}
    bad = {
        name: outcome.reason
        for name, outcome in alone.items()
        if outcome.kind == "wrong"
        or (outcome.kind == "unsupported" and not _is_known(name, outcome.reason))
    }
    assert not bad
    print(operator, dict(Counter(outcome.kind for outcome in alone.values())))


def test_composed_cases_are_never_wrong(outcomes):
    composed = {n: o for n, o in outcomes.items() if len(o.operators) > 1}
    assert len(composed) > 300
    assert not {n: o.reason for n, o in composed.items() if o.kind == "wrong"}


def test_known_unsupported_cases_still_are(outcomes):
    refused = {n: o.reason for n, o in outcomes.items() if o.kind == "unsupported"}
    stale = [
        case
        for case, why in KNOWN_UNSUPPORTED.items()
        if not any(re.search(case, n) and re.search(why, r) for n, r in refused.items())
    ]
    assert not stale


def test_count_of_passing_cases(outcomes):
    counts = Counter(outcome.kind for outcome in outcomes.values())
    print(dict(counts))
    assert counts["wrong"] == 0
    assert counts["pass"] >= LEAST_PASSING


def test_every_operator_of_onnx_is_lowered_or_lacked():
    """A latency is predicted of no operator that nobody can time."""
    lacks = MxnetBackend.traits.lacks
    defined = {operator for domain, operator in DEFINITIONS if not domain}
    of_onnx = operators_with_layers() - defined
    assert of_onnx - LOWERINGS.keys() == {each for each in lacks if "." not in each}
    assert not any(operator.startswith("ai.onnx.ml.") for operator in LOWERINGS)


def test_types_without_a_lowering_are_named():
    traits, every = MxnetBackend.traits, frozenset().union(*(e.types for e in LOWERINGS.values()))
    assert traits.types == every
    for dtype in every:
        assert traits.lacks_of_type.get(dtype, frozenset()) == {
            name
            for name in operators_with_layers() & LOWERINGS.keys()
            if dtype not in LOWERINGS[name].types and dtype in _allowed(name)
        }


def _allowed(operator: str) -> frozenset[str]:
    """Element types that ONNX allows for an operator's first input."""
    schema = defs.get_schema(operator)
    names = {each.removeprefix("tensor(").removesuffix(")") for each in schema.inputs[0].types}
    usual = {"float": "float32", "double": "float64"}
    return frozenset(usual.get(each, each) for each in names)
