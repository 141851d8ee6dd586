"""Operator cases of the onnx package, as networks in canonical form.

The package has some 1900 cases with inputs and expected results. They serve for numeric tests of
a backend that are broader than the conformance suite.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.checker import ValidationError

from dlbricks_core.backends import Array, Network
from dlbricks_core.errors import DLBricksError, UnsupportedError
from dlbricks_core.ir import TensorSpec, dtype_name, read_model
from dlbricks_core.operators import operator
from dlbricks_core.passes import normalize
from dlbricks_testing.cases import difference
from dlbricks_testing.laboratory import Laboratory

_OLDEST_OPSET = 7
"""Oldest opset that models are tested with."""

_TOLERANCE = 1e-3
"""Maximum relative difference from an expected result."""


@dataclass(frozen=True)
class OperatorCase:
    """A case of the onnx package.

    Attributes:
        name: Name of the case in the package.
        network: The case, ready to run; ``None`` if no backend can get it.
        expected: Results by name of the output.
        excluded: Reason why no backend can get it: a subgraph, a result that is not a tensor, a
            shape that depends on data. Empty otherwise.
    """

    name: str
    network: Network | None
    expected: Mapping[str, Array] = field(default_factory=dict)
    excluded: str = ""


def operator_cases() -> Iterator[OperatorCase]:
    """All cases of the installed onnx package, in its order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero while they are made
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        yield _operator_case(case)


def judged(lab: Laboratory, case: OperatorCase) -> tuple[str, str]:
    """Outcome of a case on a backend.

    Returns:
        A word (``pass``, ``unsupported``, ``excluded`` or ``wrong``), and a reason.
    """
    if case.network is None:
        return "excluded", case.excluded
    try:
        refused = lab.check(case.network.model)
    except DLBricksError as error:
        return "wrong", f"check: {error}"
    try:
        found = lab.infer(case.network)
    except UnsupportedError as error:
        return ("unsupported" if refused else "wrong"), f"load: {error}"
    except DLBricksError as error:
        return "wrong", f"{type(error).__name__}: {error}"
    if refused:
        return "wrong", f"runs, yet check says {refused}"
    for name, expected in case.expected.items():
        problem = difference(found[name], expected, _TOLERANCE)
        if problem:
            return "wrong", f"{name}: {problem}"
    return "pass", ""


def _operator_case(case: Any) -> OperatorCase:
    try:
        given, wanted = ([_tensor(value) for value in values] for values in case.data_sets[0])
    except TypeError:
        return OperatorCase(case.name, None, excluded="sequences, optionals and texts")
    values = dict(zip((i.name for i in case.model.graph.input), given, strict=True))
    try:
        network = _network(_with_parameters_inside(case.model, values), case.name, values)
    except (DLBricksError, ValidationError) as error:
        return OperatorCase(case.name, None, excluded=str(error))
    opaque = [layer.opaque for layer in network.model.layers if layer.opaque]
    if opaque:
        return OperatorCase(case.name, None, excluded=opaque[0])
    return OperatorCase(case.name, network, dict(zip(network.model.outputs, wanted, strict=True)))


def _tensor(value: Any) -> Array:
    """A case's value as an array.

    Raises:
        TypeError: If the value is a sequence, an optional, or text.
    """
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray | np.generic | int | float):
        raise TypeError(type(value))
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        raise TypeError(array.dtype)
    return array


def _with_parameters_inside(proto: ModelProto, values: Mapping[str, Array]) -> ModelProto:
    """The model with its parameters, such as axes, as initializers; the cases feed them."""
    model = ModelProto()
    model.CopyFrom(proto)
    for opset in model.opset_import:  # some claim opset 1 for operators as they are today
        if not opset.domain:
            opset.version = max(opset.version, _OLDEST_OPSET)
    parameters = {
        node.input[position]
        for node in model.graph.node
        for position in operator(_qualified(node)).parameters
        if position < len(node.input) and node.input[position] in values
    }
    kept = [info for info in model.graph.input if info.name not in parameters]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(
        numpy_helper.from_array(values[name], name) for name in sorted(parameters)
    )
    return model


def _qualified(node: NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _network(proto: ModelProto, name: str, values: Mapping[str, Any]) -> Network:
    raw = read_model(proto, name=name)
    # Sizes of zero mean "any" in a file; these cases leave others open, and mean zero.
    given = {n: TensorSpec(dtype_name(values[n].dtype), values[n].shape) for n in raw.inputs}
    model = normalize(replace(raw, tensors={**raw.tensors, **given}))
    known = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    known.update(model.constants)
    return Network(
        model,
        weights={weight: known[weight] for weight in model.weights},
        inputs={n: values[n] for n in model.inputs},
    )
