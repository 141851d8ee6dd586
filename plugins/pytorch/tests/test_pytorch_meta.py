"""Modules on the meta device: lowered without values, from a factory or from Python."""

from __future__ import annotations

import resource

import pytest
import torch
from dlbricks_pytorch.importer import from_module
from torch import nn

from dlbricks_core.errors import ModelError
from dlbricks_core.passes import normalize

META = torch.device("meta")


class Net(nn.Module):
    """A module that makes a mask of its own, on the device that torch makes tensors on."""

    def __init__(self, size=8):
        super().__init__()
        self.words, self.out = nn.Embedding(50, size), nn.Linear(size, 50, bias=False)
        self.norm = nn.LayerNorm(size)
        self.register_buffer("scale", torch.ones(size))
        self.out.weight = self.words.weight

    def forward(self, ids):
        places = torch.arange(ids.shape[1])[:, None].float()
        return self.out(self.norm(self.words(ids) + places * self.scale))


def meta(make):
    with META:
        return make()


IDS = torch.zeros(1, 4, dtype=torch.long)


@pytest.mark.parametrize("ids", [IDS, IDS.to(META)], ids=["on the CPU", "on meta"])
def test_a_module_on_meta_is_lowered_like_one_with_values(ids):
    found = normalize(from_module(meta(Net), (ids,), name="net"))
    other = normalize(from_module(Net(), (IDS,), name="net"))
    assert [layer.op for layer in found.layers] == [layer.op for layer in other.layers]
    assert found.tensors[found.outputs[0]] == other.tensors[other.outputs[0]]
    assert len(found.weights) == len(other.weights)


def test_the_module_stays_on_meta_and_keeps_what_it_shares():
    module = meta(Net)
    weight = module.out.weight
    from_module(module, (IDS,))
    assert module.out.weight is module.words.weight is weight
    assert {each.device for each in (*module.parameters(), *module.buffers())} == {META}
    assert module.training


def test_a_module_that_cannot_be_followed_stays_on_meta_as_well():
    class Branching(Net):
        def forward(self, ids):
            return self.out.weight if ids.sum() > 0 else self.scale

    module = meta(Branching)
    with pytest.raises(ModelError, match=r"cannot follow Branching .*depends on the values"):
        from_module(module, (IDS,))
    assert module.out.weight.device == META


def test_a_module_that_needs_the_value_of_a_weight_is_refused_by_name():
    class Sliced(Net):
        def forward(self, ids):
            return super().forward(ids)[:, : int(self.scale[0].item())]

    with pytest.raises(ModelError, match=r"cannot follow Sliced .*values of a tensor") as caught:
        normalize(from_module(meta(Sliced), (IDS,)))
    assert "\n" not in caught.value.message


def test_one_part_may_be_on_meta_and_another_have_values():
    class Parted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, device=META)
            self.register_buffer("picked", torch.tensor([2, 0, 1]))

        def forward(self, x):
            return self.second(self.first(x))[:, self.picked]

    found = normalize(from_module(Parted(), (torch.zeros(2, 4),)))
    assert found.tensors[found.outputs[0]].sizes == (2, 3)
    assert [2, 0, 1] in [value.ravel().tolist() for value in found.constants.values()]


def test_weights_of_any_type_are_lowered():
    module = meta(lambda: nn.Linear(8, 4).bfloat16())
    found = normalize(from_module(module, (torch.zeros(1, 8, dtype=torch.bfloat16),)))
    assert {spec.dtype for spec in found.tensors.values()} == {"bfloat16"}


def test_a_module_of_eight_billion_parameters_takes_little_memory():
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            return x + self.down(torch.nn.functional.silu(self.up(x)))

    module = meta(lambda: nn.Sequential(*(Block(8192) for _ in range(15))))
    assert sum(each.numel() for each in module.parameters()) > 8e9
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = normalize(from_module(module, (torch.zeros(1, 8192),)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert found.weight_bytes > 32e9
    assert grown < 500 << 10  # kilobytes
    assert not any(found.tensors[name].elements > 4096 for name in found.constants)
