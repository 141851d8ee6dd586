"""Networks in float16 and bfloat16: what PyTorch computes is near to float32."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_pytorch.check import unsupported
from dlbricks_pytorch.timer import PytorchTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.backends.reference import ReferenceHost
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, numpy_dtype
from dlbricks_core.passes.convert import convert
from dlbricks_core.testing import cases
from dlbricks_core.values import materialize
from dlbricks_core.worker.resident import forget_peak, give_back, peak_mib, resident_mib
from dlbricks_core.workflows.agreement import all_vary, difference

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


def test_a_transposed_weight_is_copied_once(timer):
    specs = {"x": (1, 8192), "w": (8192, 8192), "y": (1, 8192)}
    model = CanonicalModel(
        name="short",
        layers=(Layer("MatMul", ("x", "w"), ("y",)),),
        inputs=("x",),
        outputs=("y",),
        tensors={name: TensorSpec("bfloat16", sizes) for name, sizes in specs.items()},
        weights=frozenset({"w"}),
    )
    drawn = materialize(model, 0)
    give_back()
    forget_peak()
    before = resident_mib()
    loaded = timer.load(drawn)
    taken = peak_mib() - before
    timer.unload(loaded)
    assert taken < 1.75 * 128, f"{taken:.0f} MiB for a weight of 128 MiB"


def test_an_operator_without_a_kernel_for_a_type_is_named():
    model = convert(cases.network("lrn").model, "bfloat16")
    (reason,) = unsupported(model).values()
    assert reason.startswith("LRN: torch:")
    assert "BFloat16" in reason
