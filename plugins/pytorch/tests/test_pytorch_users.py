"""Modules as PyTorch's users run them."""

from __future__ import annotations

import pytest
import torch
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.factories import TorchFactories

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.importers import ImportOptions
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize


@pytest.fixture
def factory(tmp_path, monkeypatch):
    """Name of a factory whose module counts its calls."""
    (tmp_path / "users_nets.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first = torch.nn.Linear(8, 4)\n"
        "        self.drop = torch.nn.Dropout(0.5)\n"
        "    def forward(self, x):\n"
        "        return self.drop(self.first(x))\n"
        "def net():\n"
        "    torch.manual_seed(0)\n"
        "    return Net(), (torch.ones(2, 8),)\n"
        "def meta():\n"
        "    with torch.device('meta'):\n"
        "        return Net(), (torch.ones(2, 8),)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "users_nets"


@pytest.fixture
def timer():
    found = PytorchBackend().timer(BackendSettings(1, as_used=True))
    yield found
    found.close()


def opened(timer, name, batch=None):
    model = normalize(TorchFactories().load(name, ImportOptions(batch=batch)))
    return timer.open(model, materialize(model, 0).inputs, 1), model


def test_only_factories_are_opened():
    assert PytorchBackend().opens("torch:package:factory")
    assert not PytorchBackend().opens("model.pt2")


def test_the_module_itself_runs_in_evaluation_mode(factory, timer):
    found, _ = opened(timer, f"{factory}:net")
    import users_nets

    module, inputs = users_nets.net()
    assert torch.equal(found.run(), module.eval()(*inputs))
    told = [(each.name, bool(each.outputs)) for each in found.profile.layers]
    assert told == [("linear", True), ("dropout", False)]


def test_another_batch_size_has_inputs_of_its_own(factory, timer):
    found, model = opened(timer, f"{factory}:net", batch=5)
    assert tuple(found.run().shape) == model.tensors[model.outputs[0]].sizes == (5, 4)


def test_a_module_without_weights_cannot_run(factory, timer):
    with pytest.raises(UnsupportedError, match="without weights"):
        opened(timer, f"{factory}:meta")
