"""Every operator case that the onnx package ships, through normalization and the lowering."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from dlbricks_contrib.expand import DEFINITIONS
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.check import unsupported
from dlbricks_pytorch.lowering import LOWERINGS, lower
from dlbricks_pytorch.tensors import TORCH_DTYPES, from_numpy, to_numpy
from dlbricks_testing.operators import operators_with_layers
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.checker import ValidationError

from dlbricks_core.backends import Network
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel, TensorSpec, dtype_name, read_model
from dlbricks_core.operators.table import operator
from dlbricks_core.passes import normalize

#: Relative and absolute tolerance by element type: a few units in the last place of those
#: types that have few digits.
TOLERANCES = {np.dtype(np.float16): (5e-3, 5e-3), np.dtype(ml_dtypes.bfloat16): (2e-2, 1e-2)}


@dataclass
class Outcome:
    """What became of the cases: names by reason."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    upstream: dict[str, str] = field(default_factory=dict)
    operators: set[str] = field(default_factory=set)


def tensor(value: Any) -> np.ndarray[Any, Any] | None:
    """A case's value as an array; ``None`` for sequences and optionals."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic | int | float) else None


def with_parameters_inside(proto: ModelProto, values: dict[str, np.ndarray]) -> ModelProto:
    """The model with those inputs as initializers whose values are parameters of the work."""
    model = ModelProto()
    model.CopyFrom(proto)
    for opset in model.opset_import:  # three cases claim opset 1 for operators as they are today
        opset.version = max(opset.version, 7) if not opset.domain else opset.version
    parameters = {
        node.input[position]
        for node in model.graph.node
        for position in operator(qualified(node)).parameters
        if position < len(node.input) and node.input[position] in values
    }
    for name in sorted(parameters):
        model.graph.initializer.append(numpy_helper.from_array(values[name], name))
    kept = [i for i in model.graph.input if i.name not in parameters]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model


def qualified(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def network(
    proto: ModelProto, name: str, inputs: dict[str, np.ndarray]
) -> tuple[CanonicalModel, dict[str, np.ndarray]]:
    """The normalized model and the values of its weights."""
    raw = read_model(proto, name=name)
    # Sizes of zero mean "any" in a file; these cases leave others open, and mean zero.
    given = {n: TensorSpec(dtype_name(inputs[n].dtype), inputs[n].shape) for n in raw.inputs}
    model = normalize(replace(raw, tensors={**raw.tensors, **given}))
    values = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer} | dict(
        model.constants
    )
    return model, {weight: values[weight] for weight in model.weights}


def run_case(case: Any, outcome: Outcome) -> None:
    for given, expected in case.data_sets:
        arrays = [tensor(value) for value in given]
        wanted = [tensor(value) for value in expected]
        if any(value is None or value.dtype.kind in "OUS" for value in (*arrays, *wanted)):
            outcome.upstream[case.name] = "sequences, optionals and texts are not timed"
            return
        names = [value.name for value in case.model.graph.input]
        values = dict(zip(names, arrays, strict=True))
        try:
            model, weights = network(with_parameters_inside(case.model, values), case.name, values)
        except (DLBricksError, ValidationError) as error:
            outcome.upstream[case.name] = str(error)
            return
        opaque = [layer.opaque for layer in model.layers if layer.opaque]
        if opaque:
            outcome.upstream[case.name] = opaque[0]
            return
        reasons = unsupported(model)
        if reasons:
            outcome.unsupported[case.name] = next(iter(reasons.values()))
            return
        outcome.operators |= {layer.qualified_op for layer in model.layers}
        module = lower(Network(model, weights, {}))
        results = module.forward(*(from_numpy(values[name]) for name in model.inputs))
        for result, value in zip(results, wanted, strict=True):
            problem = difference(to_numpy(result), value)
            if problem:
                outcome.failed[case.name] = problem
                return
    outcome.passed.append(case.name)


def difference(got: np.ndarray, wanted: np.ndarray) -> str:
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{got.shape} is not {wanted.dtype}{wanted.shape}"
    relative, absolute = TOLERANCES.get(wanted.dtype, (1e-3, 1e-5))
    if wanted.dtype.isbuiltin != 1:
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    try:
        np.testing.assert_allclose(got, wanted, rtol=relative, atol=absolute)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    from onnx.backend.test.case.node import collect_testcases

    found = Outcome()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            try:
                run_case(case, found)
            except Exception as error:  # noqa: BLE001 - a case that crashes is a case that fails
                found.failed[case.name] = f"{type(error).__name__}: {error}"
    return found


#: Cases that torch cannot compute: pattern of the name -> how many, and why.
LACKING = {
    r"(U?INT[24]|FLOAT4E2M1|u?int[24]|float4e2m1)(_|$)": (82, "torch has no such element type"),
    r"_no_saturate_FLOAT(16)?_to_FLOAT8E4M3FN(_|$)": (6, "torch always saturates there"),
    r"_e8m0_FLOAT(16)?_to_": (2, "torch does not round to float8e8m0 as ONNX does"),
    r"_(add|sub|div|mod|min|max|(greater|less)(_equal)?|bitshift_\w+)_uint(16|32|64)(_expanded)?$"
    r"|_bitwise_not_3d$": (43, "torch has no such unsigned arithmetic"),
    r"_bernoulli": (6, "the numbers are drawn at random: torch draws others"),
    r"_(adagrad|adam|momentum|nesterov_momentum)": (7, "no operators of inference"),
    r"_ai_onnx_ml_": (8, "torch has no classical machine learning"),
    r"_(basic_)?deform_conv|_nonmaxsuppression|_roialign": (17, "in torchvision, not in torch"),
    r"_flexattention(?!.*_expanded)": (11, "its score functions are subgraphs"),
    r"_linear_attention(?!.*_expanded)": (14, "torch has no recurrent linear attention"),
    r"_string|_strnorm|_regex|_tfidf|_image_decoder": (40, "texts and image files"),
}

#: Cases that reach no backend, as far as normalization goes today.
NOT_FOR_BACKENDS = {
    r"_(if|loop|scan|range_\w+_expanded|linear_attention_\w+_expanded)": "subgraphs",
    r"_(sequence|optional|identity_opt|identity_sequence|split_to_sequence)": "no tensors",
    r"_(training_dropout|batchnorm_\w*training)": "training",
    r"_unique": "the shape of the result depends on the data",
    r"_(affine_grid|blackmanwindow|hammingwindow|hannwindow|center_crop_pad)_?\w*_expanded":
        "the shape of a result is computed from an input's values",
}  # fmt: skip


def test_every_case_passes_that_is_not_named_with_a_reason(outcome):
    named = re.compile("|".join((*LACKING, *NOT_FOR_BACKENDS)))
    others = {**outcome.failed, **outcome.unsupported, **outcome.upstream}
    assert {name: why for name, why in others.items() if not named.search(name)} == {}


def test_what_torch_lacks_is_refused_and_never_computed_differently(outcome):
    refused = [*outcome.unsupported, *outcome.upstream, *outcome.failed]
    for pattern, (count, _) in LACKING.items():
        cases = [name for name in (*outcome.passed, *refused) if re.search(pattern, name)]
        assert len(cases) == count, pattern
        by_chance = pattern == "_bernoulli"  # once in a thousand times, torch draws the same
        assert by_chance or not set(cases) & set(outcome.passed), pattern
    assert all("bernoulli" in name for name in outcome.failed), outcome.failed


def test_counts_hold(outcome):
    total = sum(map(len, (outcome.passed, outcome.failed, outcome.unsupported, outcome.upstream)))
    assert total == 1884
    assert len(outcome.passed) >= 1562


def test_every_lowering_is_run_by_some_case(outcome):
    """But for those that the package ships no case for, which are tested elsewhere."""
    assert set(LOWERINGS) - outcome.operators == {
        "GlobalLpPool", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    }  # fmt: skip


def test_every_operator_of_onnx_is_lowered_or_lacked() -> None:
    """A latency is predicted of no operator that nobody can time."""
    lacks = PytorchBackend.traits.lacks
    defined = {operator for domain, operator in DEFINITIONS if not domain}
    of_onnx = operators_with_layers() - defined
    assert of_onnx - LOWERINGS.keys() == {each for each in lacks if "." not in each}
    assert not any(operator.startswith("ai.onnx.ml.") for operator in LOWERINGS)


def test_types_of_torch_are_named() -> None:
    assert PytorchBackend.traits.types == TORCH_DTYPES.keys()
