"""Bounds and guards of exported programs: sizes that torch refuses are refused."""

from __future__ import annotations

import pytest
import torch
from dlbricks_pytorch.conditions import with_conditions
from dlbricks_pytorch.importer import PytorchImporter, from_exported
from torch import nn
from torch.export import Dim

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import RawModel, TensorSpec
from dlbricks_core.passes import normalize


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 4, stride=2, padding=1)

    def forward(self, x, skip):
        return torch.cat([self.conv(x), skip], 1)


class Pairs(nn.Module):
    def forward(self, x, y):
        rows = x.shape[0] + y.shape[0]
        return torch.cat([x, y]).reshape(rows // 2, 2, -1).sum(1)


@pytest.fixture(scope="module")
def programs():
    half, batch = Dim("half", min=2, max=512), Dim("batch", min=1, max=64)
    shapes = ({0: batch, 2: 2 * half}, {0: batch, 2: half})
    inputs = (torch.randn(3, 4, 20), torch.randn(3, 2, 10))
    pairs = (torch.randn(4, 6), torch.randn(8, 6))
    auto = ({0: Dim.AUTO}, {0: Dim.AUTO})
    return {
        "halves": torch.export.export(Halves().eval(), inputs, dynamic_shapes=shapes),
        "pairs": torch.export.export(Pairs(), pairs, dynamic_shapes=auto),
    }


@pytest.fixture(params=["memory", "file"])
def read(request, programs, tmp_path):
    def raw(name):
        if request.param == "memory":
            return from_exported(programs[name], name=name)
        torch.export.save(programs[name], tmp_path / f"{name}.pt2")
        return PytorchImporter().load(tmp_path / f"{name}.pt2")

    return raw


def at(model, *sizes):
    """The model with sizes of the first axis of the first input, and of the last of the last."""
    first, last = model.inputs[0], model.inputs[-1]
    places = (model.tensors[first].shape[0], model.tensors[last].shape[-1 if len(sizes) > 2 else 0])
    return normalize(model, dims=dict(zip(places, sizes, strict=False)))


@pytest.mark.parametrize(("batch", "half", "fits"), [(64, 2, True), (1, 512, True), (65, 9, False),
                                                     (2, 1, False), (2, 513, False)])  # fmt: skip
def test_bounds_hold_also_those_of_derived_sizes(read, batch, half, fits):
    model = read("halves")
    if fits:
        assert at(model, batch, half, None).tensors[model.inputs[1]].shape == (batch, 2, half)
        return
    with pytest.raises(ModelError, match="outside of the sizes that it was exported for"):
        at(model, batch, half, None)


@pytest.mark.parametrize(("x", "y", "fits"), [(4, 8, True), (3, 5, True), (4, 5, False)])
def test_guards_hold(read, x, y, fits):
    if fits:
        assert at(read("pairs"), x, y).layers
        return
    with pytest.raises(ModelError, match="outside of the sizes"):
        at(read("pairs"), x, y)


def test_what_is_no_condition_on_sizes_is_left_out():
    raw = RawModel("m", (), ("x",), ("x",), {"x": TensorSpec("float32", ("n", 4))})
    guards = ["L['x'].size()[0] != 9", "L['z'].size()[0] == 1", "__import__('os').getcwd() == 1",
              "L['x'].size()[7] == 1"]  # fmt: skip
    model = with_conditions(raw, {"n": (2, 10)}, guards)
    assert model.conditions == ("n <= 10", "(n) != 9", "__import__('os').getcwd() == 1")
    normalize(model, dims={"n": 8})
    with pytest.raises(ModelError):
        normalize(model, dims={"n": 9})
