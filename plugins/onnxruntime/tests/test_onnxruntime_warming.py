"""What a timer warms before a run, and what it must leave cold."""

from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from dlbricks_testing.cases import cold_cache

from dlbricks_core.backends import BackendSettings


def test_cold_tensors_are_neither_warmed_nor_shared_with_the_copy():
    timer = OnnxruntimeTimer(BackendSettings(1))
    network = cold_cache()
    loaded = timer.load(network)
    (warmed,) = loaded.warmed
    assert warmed.nbytes == loaded.arrays["x"].nbytes
    copied = timer.load_copy(network, loaded, private_cache_bytes=0)
    shared = {name: copied.arrays[name] is array for name, array in loaded.arrays.items()}
    assert shared == {"past": False, "x": True, "present": False}
    timer.run(copied)
    timer.run(loaded)
    (result,) = timer.outputs(loaded).values()
    assert (result[:300] == network.inputs["past"]).all()
