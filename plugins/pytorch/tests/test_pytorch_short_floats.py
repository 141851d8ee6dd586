"""Networks in float16 and bfloat16: what PyTorch computes is near to float32."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from dlbricks_compare.agreement import all_vary, difference
from dlbricks_compare.reference import ReferenceHost
from dlbricks_pytorch.check import unsupported
from dlbricks_pytorch.timer import PytorchTimer
from dlbricks_testing import cases

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, numpy_dtype
from dlbricks_core.passes.convert import convert
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"memory_format": "contiguous", "compile": "off"})
NETWORKS = ("convolutions", "attention", "lstm_both_ways", "gru", "residual_block",
            "attention_by_hand", "top_k", "resize_linear", "cumulative_sum", "einsum")  # fmt: skip


@pytest.fixture(scope="module")
def timer():
    return PytorchTimer(SETTINGS)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_float32_but_for_rounding(name, dtype, timer):
    model = convert(cases.network(name).model, dtype)
    assert not unsupported(model)
    loaded = timer.load(materialize(model, 0))
    timer.run(loaded)
    found = timer.outputs(loaded)
    timer.unload(loaded)
    exact = ReferenceHost().outputs(model, 0)
    floats = [n for n in model.outputs if model.tensors[n].dtype == dtype]
    assert floats
    for output in floats:
        assert found[output].dtype == numpy_dtype(dtype)
        assert exact[output].dtype == np.float32
    expected = {output: exact[output] for output in floats}
    assert all_vary(expected)
    assert difference(found, expected) < 1e-3


def test_a_trial_of_types_leaves_no_weight_behind(timer):
    specs = {"x": (1, 2048), "w": (2048, 2048), "y": (1, 2048)}
    model = CanonicalModel(
        name="short",
        layers=(Layer("MatMul", ("x", "w"), ("y",)),),
        inputs=("x",),
        outputs=("y",),
        tensors={name: TensorSpec("bfloat16", sizes) for name, sizes in specs.items()},
        weights=frozenset({"w"}),
    )
    gc.collect()
    gc.disable()  # as in a worker
    try:
        loaded = timer.load(materialize(model, 0))
        every = [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]
    finally:
        gc.enable()
    assert len([each for each in every if each.shape == (2048, 2048)]) == 1
    timer.unload(loaded)


def test_an_operator_without_a_kernel_for_a_type_is_named():
    model = convert(cases.network("lrn").model, "bfloat16")
    (reason,) = unsupported(model).values()
    assert reason.startswith("LRN: torch:")
    assert "BFloat16" in reason
