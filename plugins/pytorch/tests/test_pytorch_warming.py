"""What a timer warms before a run, and what it must leave cold."""

from dlbricks_pytorch.timer import PytorchTimer
from dlbricks_testing.cases import cold_cache

from dlbricks_core.backends import BackendSettings


def test_cold_inputs_are_not_warmed():
    timer = PytorchTimer(BackendSettings(1))
    loaded = timer.load(cold_cache())
    assert [tuple(tensor.shape) for tensor in loaded.warmed] == [(1, 64)]
    timer.run(loaded)
    timer.warm_io(loaded)
