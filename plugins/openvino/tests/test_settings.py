"""Threads and precision of compiled models."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("openvino")

from dlbricks_openvino.backend import OpenvinoBackend
from dlbricks_openvino.loading import compiled
from dlbricks_openvino.settings import properties
from dlbricks_testing import cases

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import BackendError
from dlbricks_core.passes.convert import convert


def settings(**more: object) -> BackendSettings:
    return BackendSettings(2, {"precision": "model"}, **more)


def test_a_model_is_compiled_for_one_stream_of_as_many_threads_as_are_given():
    ready = compiled(cases.network("conv"), settings())
    assert ready.get_property("NUM_STREAMS") == 1
    assert ready.get_property("INFERENCE_NUM_THREADS") == 2
    assert ready.get_property("PERF_COUNT") == "NO"


@pytest.mark.parametrize(
    ("dtype", "hint"), [("float32", "f32"), ("bfloat16", "bf16"), ("float16", "f16")]
)
def test_a_model_is_computed_in_its_own_precision(dtype, hint):
    model = convert(cases.network("conv").model, dtype)
    assert properties(model, settings())["INFERENCE_PRECISION_HINT"] == hint


def test_the_precision_can_be_left_to_openvino():
    model = cases.network("conv").model
    chosen = BackendSettings(1, {"precision": "openvino"})
    assert "INFERENCE_PRECISION_HINT" not in properties(model, chosen)


def test_a_users_process_pins_threads_as_openvino_does():
    model = cases.network("conv").model
    assert properties(model, settings())["ENABLE_CPU_PINNING"] is False
    assert "ENABLE_CPU_PINNING" not in properties(model, settings(as_used=True))


def test_an_unknown_precision_is_refused():
    with pytest.raises(BackendError, match="precision=half"):
        OpenvinoBackend().timer(BackendSettings(1, {"precision": "half"}))


def test_many_networks_reserve_little_memory_for_threads():
    kept = [compiled(cases.network("conv"), settings())]
    before = reserved_bytes()
    kept += [compiled(cases.network("conv"), settings()) for _ in range(8)]
    assert (reserved_bytes() - before) / 8 < 8 << 20


def reserved_bytes():
    """Memory of this process that the limit of data counts."""
    status = Path("/proc/self/status").read_text("ascii")
    return 1024 * int(status.partition("VmData:")[2].split()[0])
