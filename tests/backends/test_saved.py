"""Networks that backends write to files, as their users keep them."""

import numpy as np
import pytest

from dlbricks_core.api.inputs import models_of
from dlbricks_core.backends import Backend, BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.plugins import find
from dlbricks_core.values import materialize


@pytest.fixture(scope="module")
def network():
    """A segment with convolutions, from the middle of a model."""
    bricks = BrickSet.of(models_of("onnx:light_squeezenet"), 128, "segments").bricks
    return materialize(list(bricks.values())[1].model, 0)


@pytest.mark.parametrize("name", ["onnxruntime", "pytorch", "mxnet"])
def test_a_saved_network_computes_what_the_network_does(name, network, tmp_path):
    pytest.importorskip(f"dlbricks_{name}.timer")
    backend = find("backend", name, Backend).loaded()
    timer = backend.timer(
        BackendSettings(1, {option: each.default for option, each in backend.options.items()})
    )
    loaded = timer.save(network, tmp_path).open()
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
