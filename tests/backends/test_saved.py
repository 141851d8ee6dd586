"""Networks that backends write to files, as their users keep them."""

import numpy as np
import pytest

from dlbricks_core.api.inputs import models_of
from dlbricks_core.backends import Backend, BackendSettings, CpuTimer
from dlbricks_core.backends.saved import AuxiliaryProcess
from dlbricks_core.bricks import BrickSet
from dlbricks_core.plugins import find
from dlbricks_core.values import materialize

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def network():
    """A segment with convolutions, from the middle of a model."""
    bricks = BrickSet.of(models_of("onnx:light_squeezenet"), 128, "segments").bricks
    return materialize(list(bricks.values())[1].model, 0)


@pytest.mark.parametrize("name", ["onnxruntime", "pytorch", "mxnet"])
def test_a_network_that_another_process_saved_computes_what_it_does_here(
    name, network, tmp_path, monkeypatch
):
    pytest.importorskip(f"dlbricks_{name}.timer")
    plugin = find("backend", name, Backend)
    options = {option: each.default for option, each in plugin.loaded.options.items()}
    settings = BackendSettings(1, options)
    timer = plugin.loaded().timer(settings)
    monkeypatch.setattr(CpuTimer, "present", timer)
    with AuxiliaryProcess(plugin.target, settings) as writer:
        loaded = writer.save(network.model, 0, tmp_path).open()
    timer.run(loaded)
    timer.synchronize(loaded)
    found = timer.outputs(loaded)
    timer.unload(loaded)
    whole = timer.load(network)
    timer.run(whole)
    timer.synchronize(whole)
    for tensor, values in timer.outputs(whole).items():
        np.testing.assert_allclose(found[tensor], values, rtol=1e-4, atol=1e-5)
    timer.unload(whole)
