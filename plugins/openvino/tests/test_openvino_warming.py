"""Memory that the timer warms before a run, and memory that it must leave cold."""

import pytest

pytest.importorskip("openvino")

from dlbricks_openvino.timer import OpenvinoTimer
from dlbricks_testing.cases import cold_cache

from dlbricks_core.backends import BackendSettings


def test_cold_tensors_are_neither_warmed_nor_shared_with_the_copy():
    timer = OpenvinoTimer(BackendSettings(1))
    network = cold_cache()
    loaded = timer.load(network)
    assert [place.memory.shape for place in loaded.warmed] == [(1, 64)]
    copy = timer.load_copy(network, loaded, private_cache_bytes=1 << 20)
    assert copy.before is None
    shared = {name: copy.inputs[name] is place for name, place in loaded.inputs.items()}
    assert shared == {"past": False, "x": True}
    assert copy.outputs["present"] is not loaded.outputs["present"]
    timer.run(copy)
    timer.warm_io(loaded)
    timer.run(loaded)
    for each in (copy, loaded):
        (result,) = timer.outputs(each).values()
        assert (result[:300] == network.inputs["past"]).all()
