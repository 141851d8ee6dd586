"""Profiles of users' own modules, operator by operator."""

from __future__ import annotations

from time import perf_counter

import pytest
import torch
from dlbricks_pytorch import traced
from dlbricks_pytorch.importer import from_module
from torch import nn

from dlbricks_core.passes import normalize

TRIES = 5
"""Other work on the machine disturbs some of them."""


@pytest.fixture(autouse=True)
def _one_thread():
    """One thread: where others compute as well, several wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Net(nn.Module):
    """Operators in place, of several layers, in branches, and called twice."""

    def __init__(self):
        super().__init__()
        self.large = nn.Conv2d(8, 256, 3)
        self.norm = nn.BatchNorm2d(256)
        self.small = nn.Conv2d(8, 1, 3)
        self.relu = nn.ReLU(inplace=True)
        self.up = nn.ConvTranspose2d(257, 4, 2)
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        branches = self.relu(self.norm(self.large(x))), torch.relu(self.small(x))
        return self.last(self.up(torch.cat(branches, 1)).mean((2, 3)))


class Changing(nn.Module):
    """Module that calls another operator in each second run."""

    def __init__(self):
        super().__init__()
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        return torch.relu(x) if self.runs % 2 else torch.sigmoid(x)


def profile(module, *inputs, runs=3):
    model = normalize(from_module(module, inputs))
    module.eval()

    def run():
        begin = perf_counter()
        module(*inputs)
        return (perf_counter() - begin) * 1e3

    with torch.inference_mode():
        run()
        return traced.profile(run, model, runs), model


def test_operators_are_the_layers_that_they_became():
    found, model = profile(Net(), torch.randn(1, 8, 64, 64))
    ops = {out: layer.op for layer in model.layers for out in layer.outputs}
    assert [(each.name, ops.get((each.outputs or ("",))[0])) for each in found.layers] == [
        ("conv2d", "Conv"),
        ("batch_norm", "BatchNormalization"),
        ("relu", "Relu"),
        ("conv2d", "Conv"),
        ("relu", "Relu"),
        ("cat", "Concat"),
        ("convolution", "ConvTranspose"),
        ("mean", "ReduceMean"),
        ("linear", "Gemm"),
    ]
    assert len({each.outputs for each in found.layers}) == 9


def test_the_time_is_where_the_work_is_and_adds_up():
    def works():
        found, _ = profile(Net(), torch.randn(1, 8, 64, 64))
        large, small = (each.ms for each in found.layers if each.name == "conv2d")
        return large > 3 * small and found.sum_ms == pytest.approx(found.run_ms, rel=0.2)

    assert any(works() for _ in range(TRIES))


def test_an_operator_that_is_called_another_number_of_times_has_no_layer():
    _, model = profile(Net(), torch.randn(1, 8, 64, 64))
    found = traced._outputs(["relu", "conv2d", "conv2d", "conv2d"], model)
    assert found == [()] * 4
    first, second, unknown = traced._outputs(["conv2d", "conv2d", "sin"], model)
    assert len({first, second, ()}) == 3
    assert unknown == ()


def test_runs_that_differ_give_no_profile():
    found, _ = profile(Changing(), torch.randn(4, 4))
    assert found is None
