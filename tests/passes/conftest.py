"""Runs a model as it was written and in canonical form, and compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from dlbricks_core.ir import CanonicalModel, numpy_dtype, read_model, to_onnx
from dlbricks_core.passes import normalize

Arrays = Mapping[str, np.ndarray[Any, Any]]


def weight_values(proto: ModelProto, normal: CanonicalModel, inputs: Arrays) -> dict[str, Any]:
    """Weights of the canonical model: known, the original's, or computed by the original."""
    values: dict[str, Any] = dict(normal.constants)
    given = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    values |= {name: given[name] for name in normal.weights if name in given and name not in values}
    derived = sorted(normal.weights - values.keys())
    if derived:
        partial = ModelProto()
        partial.CopyFrom(proto)
        del partial.graph.output[:]
        partial.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in derived)
        values |= dict(
            zip(derived, ReferenceEvaluator(partial).run(None, dict(inputs)), strict=True)
        )
    return values


def run_normal(
    proto: ModelProto, normal: CanonicalModel, inputs: Arrays
) -> list[np.ndarray[Any, Any]]:
    """Outputs of the canonical model, with the types and shapes it promises."""
    written = to_onnx(normal, weight_values(proto, normal, inputs))
    onnx.checker.check_model(written)
    fed = {name: inputs[name] for name in normal.inputs}
    results = [np.asarray(result) for result in ReferenceEvaluator(written).run(None, fed)]
    for name, result in zip(normal.outputs, results, strict=True):
        spec = normal.tensors[name]
        assert result.shape == spec.sizes, name
        if spec.dtype != "string":
            assert result.dtype == numpy_dtype(spec.dtype), name
    return results


def same(
    found: Sequence[np.ndarray[Any, Any]],
    expected: Sequence[np.ndarray[Any, Any]],
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Asserts that results are equal, but for rounding."""
    for one, other in zip(found, expected, strict=True):
        other = np.asarray(other)
        assert one.shape == other.shape
        if one.dtype.kind in "OUSb" or one.dtype.itemsize == 0:
            np.testing.assert_array_equal(one, other)
        else:
            kind = np.complex128 if one.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(one.astype(kind), other.astype(kind), rtol=rtol, atol=atol)


def normalize_and_compare(
    proto: ModelProto, inputs: Arrays, expected: Sequence[Any] | None = None, **options: Any
) -> CanonicalModel:
    """The canonical model, having compared its results with the original's."""
    normal = normalize(read_model(proto, name="model"), **options)
    assert not [layer.opaque for layer in normal.layers if layer.opaque]
    assert all(spec.is_static for spec in normal.tensors.values())
    if expected is None:
        expected = ReferenceEvaluator(proto).run(None, dict(inputs))
    same(run_normal(proto, normal, inputs), expected)
    again = normalize(normal.as_raw())
    assert again.layers == normal.layers
    assert again.tensors == normal.tensors
    assert again.weights == normal.weights
    return normal


@pytest.fixture(scope="session")
def compared() -> Callable[..., CanonicalModel]:
    return normalize_and_compare


@pytest.fixture(scope="session")
def outcome() -> Callable[..., str]:
    """Like ``compared``, but says in a word why a model is not fully canonical."""

    def judge(
        proto: ModelProto,
        inputs: Arrays,
        expected: Sequence[Any],
        rtol: float,
        atol: float,
        dims: Mapping[str, int],
    ) -> str:
        absent = {name: None for name, value in inputs.items() if value is None}
        normal = normalize(read_model(proto, name="model"), dims=dims, values=absent)
        opaque = [layer.opaque for layer in normal.layers if layer.opaque]
        if opaque:
            return opaque[0]
        for name, spec in normal.tensors.items():
            if not spec.is_static:
                return f"{name!r} is not static"
        again = normalize(normal.as_raw())
        assert again.layers == normal.layers
        assert again.tensors == normal.tensors
        same(run_normal(proto, normal, inputs), expected, max(rtol, 1e-5), max(atol, 1e-6))
        return ""

    return judge
