"""Bags of embeddings compute the same as torch, and need no layer for each bag."""

import numpy as np
import pytest
import torch
from dlbricks_pytorch.export import to_program, to_proto, trace
from torch import nn

from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize

ort = pytest.importorskip("onnxruntime")

MODES = ("sum", "mean", "max")
INDICES = torch.tensor([[3, 1, 4], [1, 3, 9], [3, 3, 3], [0, 2, 5]])
OFFSETS = torch.tensor([0, 5, 5, 9, 12])


class Bags(nn.Module):
    """Bags of embeddings with a layer behind them."""

    def __init__(self, weighted=False, **options):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.bags = nn.EmbeddingBag(10, 4, **options)
        self.bags.weight.data = torch.randn(10, 4, generator=generator)
        self.weighted = weighted

    def forward(self, indices, *others):
        *offsets, factors = others if self.weighted else (*others, None)
        return self.bags(indices, *(offsets or [None]), factors) * 2


def factors_of(indices):
    return torch.linspace(0.5, 2, indices.numel()).reshape(indices.shape)


def cases():
    """Modules and inputs: matrices, and lists with offsets."""
    for mode, padding in (("sum", None), ("sum", 3), ("mean", None), ("mean", 3), ("max", 3)):
        module = Bags(mode=mode, padding_idx=padding)
        yield f"{mode}, padding {padding}, rows", module, (INDICES,)
        yield f"{mode}, padding {padding}, list", module, (INDICES.reshape(-1), OFFSETS)
    last = Bags(include_last_offset=True, mode="mean")
    yield "the last offset", last, (INDICES.reshape(-1), OFFSETS)
    short = (INDICES.reshape(-1).int(), OFFSETS.int())
    yield "short integers", Bags(), short
    weighted = Bags(weighted=True, mode="sum")
    yield "weighted rows", weighted, (INDICES, factors_of(INDICES))
    several = (*short, factors_of(INDICES).reshape(-1))
    yield "weighted list", weighted, several


CASES = {name: rest for name, *rest in cases()}


@pytest.mark.parametrize("case", CASES)
def test_bags_compute_the_same_as_torch(case):
    module, inputs = CASES[case]
    program = to_program(trace(module, inputs, {}))
    session = ort.InferenceSession(program.model_proto.SerializeToString())
    names = (each.name for each in session.get_inputs())
    feeds = {name: each.numpy() for name, each in zip(names, inputs, strict=True)}
    (found,) = session.run(None, feeds)
    np.testing.assert_allclose(found, module(*inputs).detach().numpy(), rtol=1e-5, atol=1e-6)


def canonical(module, inputs, **dims):
    shapes = dims.pop("dynamic_shapes", None)
    proto = to_proto(trace(module, inputs, {}, shapes))
    return normalize(read_model(proto, name="bags"), dims=dims)


@pytest.mark.parametrize("mode", MODES)
def test_the_number_of_layers_does_not_depend_on_the_number_of_bags(mode):
    found = []
    for bags in (2, 7):
        indices = torch.zeros(bags, 3, dtype=torch.int64)
        begin = torch.arange(0, 3 * bags, 3)
        rows = canonical(Bags(mode=mode), (indices,))
        listed = canonical(Bags(mode=mode), (indices.reshape(-1), begin))
        assert not any(layer.opaque for each in (rows, listed) for layer in each.layers)
        assert rows.tensors[rows.outputs[0]].sizes == (bags, 4)
        assert listed.tensors[listed.outputs[0]].sizes == (bags, 4)
        found.append([[layer.op for layer in each.layers] for each in (rows, listed)])
    assert found[0] == found[1]
    assert found[0][0].count("Gather") == 1
    assert "ScatterND" not in found[0][0]
