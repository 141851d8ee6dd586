"""No thread of a worker spins on into what another worker times."""

import time

import psutil
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings

_IDLE_S = 0.3
_TICK_S = 0.01
_ATTEMPTS = 3  # a thread that waits for a core, on a busy machine, sleeps late
_SPEC = TensorSpec("float32", (64, 4096))
_NETWORK = CanonicalModel(
    name="large enough for two threads",
    layers=(Layer("Sigmoid", ("x",), ("y",)),),
    inputs=("x",),
    outputs=("y",),
    tensors={"x": _SPEC, "y": _SPEC},
)


def _bench(threads):
    target = "dlbricks_onnxruntime.backend:OnnxruntimeBackend"
    bench = BackendWorker(target, OnnxruntimeBackend(), WorkerSettings(BackendSettings(threads)))
    bench.load("network", _NETWORK, "brick")
    return bench


@pytest.fixture(scope="module")
def bench():
    with _bench(2) as opened:
        yield opened


@pytest.fixture(scope="module")
def worker(bench):
    """The process that times."""
    bench.sample("network", 1, warm_io=False)
    return psutil.Process(bench._worker._pid)


def _threads(process):
    return {thread.id: thread.user_time + thread.system_time for thread in process.threads()}


def _computed_while_idle(process):
    """Seconds of CPU time that all of its threads use while nobody asks for anything."""
    before = sum(_threads(process).values())
    time.sleep(_IDLE_S)
    return sum(_threads(process).values()) - before


def test_both_threads_compute(bench, worker):
    before = _threads(worker)
    bench.sample("network", 1000, warm_io=False)
    after = _threads(worker)
    assert sum(after[thread] - before[thread] > 2 * _TICK_S for thread in before) == 2


def test_after_a_run_threads_soon_sleep(bench, worker):
    """They spin for a moment: with the next brick of the worker it goes on at once."""
    bench.sample("network", 20, warm_io=True)
    assert _computed_while_idle(worker) < _IDLE_S / 3


def test_threads_sleep_before_another_worker_computes(bench, worker):
    computed = []
    with _bench(1) as other:
        for _ in range(_ATTEMPTS):
            bench.sample("network", 20, warm_io=True)
            other.sample("network", 1, warm_io=True)
            computed.append(_computed_while_idle(worker))
    assert min(computed) <= _TICK_S
