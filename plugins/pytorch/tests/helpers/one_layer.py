"""One layer on torch and on a trusted evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dlbricks_pytorch.check import unsupported
from dlbricks_pytorch.lowering import lower
from dlbricks_pytorch.tensors import from_numpy, to_numpy
from onnx.reference import ReferenceEvaluator

from dlbricks_core.backends import Network
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, dtype_name, to_onnx

Arrays = dict[str, np.ndarray[Any, Any]]


def reference(proto, inputs: Arrays) -> list[np.ndarray]:
    return ReferenceEvaluator(proto).run(None, inputs)


def onnxruntime(proto, inputs: Arrays) -> list[np.ndarray]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, inputs)


def agree(
    op: str,
    inputs: list[np.ndarray | None],
    shapes: list[tuple[int, ...] | None],
    *,
    weights: tuple[int, ...] = (),
    parameters: tuple[int, ...] = (),
    judge=onnxruntime,
    out_dtype: str | None = None,
    opset: int = 21,
    **attributes: Any,
) -> str:
    """Runs one layer on torch and on the judge; returns torch's code."""
    names = [f"i{p}" if value is not None else "" for p, value in enumerate(inputs)]
    outs = [f"o{p}" if shape is not None else "" for p, shape in enumerate(shapes)]
    values = {n: v for n, v in zip(names, inputs, strict=True) if n}
    tensors = {n: TensorSpec(dtype_name(v.dtype), v.shape) for n, v in values.items()}
    dtype = out_dtype or dtype_name(inputs[0].dtype)
    for position, (name, shape) in enumerate(zip(outs, shapes, strict=True)):
        if name:
            kind = "int64" if op in ("MaxPool", "TopK") and position == 1 else dtype
            tensors[name] = TensorSpec(kind, shape)
    known = {names[p]: inputs[p] for p in (*weights, *parameters)}
    model = CanonicalModel(
        name="layer",
        layers=(Layer(op, tuple(names), tuple(outs), attributes),),
        inputs=tuple(n for n in names if n and n not in known),
        outputs=tuple(n for n in outs if n),
        tensors=tensors,
        weights=frozenset(known),
        constants={names[p]: inputs[p] for p in parameters},
        opsets={"": opset},
    )
    assert unsupported(model) == {}
    module = lower(Network(model, known, {}))
    results = module.forward(*(from_numpy(values[n]) for n in model.inputs))
    expected = judge(to_onnx(model, known), {n: values[n] for n in model.inputs})
    for name, result, wanted in zip(model.outputs, results, expected, strict=True):
        got = to_numpy(result)
        assert got.dtype == wanted.dtype, name
        assert got.shape == wanted.shape == tensors[name].sizes, name
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4, err_msg=name)
    return module.code


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)
