"""What a timer warms before a run, and what it must leave cold."""

from dlbricks_mxnet.timer import MxnetTimer
from dlbricks_testing.cases import cold_cache

from dlbricks_core.backends import BackendSettings


def test_cold_inputs_are_neither_warmed_nor_shared_with_the_copy():
    timer = MxnetTimer(BackendSettings(1))
    network = cold_cache()
    loaded = timer.load(network)
    assert [array.shape for array in loaded.warmed] == [(1, 64)]
    copy = timer.load_copy(network, loaded, private_cache_bytes=1 << 20)
    timer.run(copy)
    timer.synchronize(copy)
    past, row = loaded.inputs
    read = [id(array) for array in copy.start.arrays]
    assert id(past) not in read
    assert id(row) in read
    timer.warm_io(loaded)
