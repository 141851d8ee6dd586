"""Decoders run the operators that transformers runs, with the results of torch's own."""

import pytest
import torch
from dlbricks_pytorch.lowering import lower
from dlbricks_pytorch.lowering.attention import both_halves, rotate_first
from dlbricks_pytorch.lowering.normalization import rms_norm
from torch.profiler import ProfilerActivity, profile

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.values import materialize


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_is_torchs_an_operator_at_a_time(dtype):
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(shape, generator=generator) for shape in ((2, 3, 64), (64,)))
    x, weight = x.to(dtype), weight.to(dtype)
    y = rms_norm(x, weight, 1e-6)
    assert y.dtype == dtype
    wanted = torch.rms_norm(x.float(), (64,), weight.float(), 1e-6)
    torch.testing.assert_close(y.float(), wanted, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5,
                               atol=1e-5)  # fmt: skip
    with profile(activities=[ProfilerActivity.CPU]) as found:
        rms_norm(x, weight, 1e-6)
    names = {each.key for each in found.key_averages()}
    assert {"aten::pow", "aten::mean", "aten::rsqrt", "aten::mul"} <= names
    assert "aten::_fused_rms_norm" not in names


@pytest.mark.parametrize("size", [16, 24])
def test_pairs_of_both_halves_are_rotated(size):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 5, 4, size, generator=generator)
    angles = torch.randn(1, 5, 8, generator=generator)
    pairs = torch.view_as_complex(torch.stack((x[..., :8], x[..., 8:16]), -1))
    turned = pairs * torch.polar(torch.ones(1, 5, 1, 8), angles.unsqueeze(2))
    wanted = torch.cat((turned.real, turned.imag, x[..., 16:]), -1)
    cos, sin = (both_halves(angles.cos(), 2), both_halves(angles.sin(), 2))
    torch.testing.assert_close(rotate_first(x, cos, sin), wanted)


@pytest.mark.parametrize(
    ("outputs", "calls"), [(("y",), ["linear"]), (("a", "y"), ["linear", "add"])]
)
def test_a_bias_is_part_of_the_product_that_nothing_else_reads(outputs, calls):
    layers = Layer("MatMul", ("x", "w"), ("a",)), Layer("Add", ("a", "b"), ("y",))
    shapes = {"x": (2, 3, 8), "w": (8, 4), "b": (4,), "a": (2, 3, 4), "y": (2, 3, 4)}
    specs = {name: TensorSpec("float32", shape) for name, shape in shapes.items()}
    model = CanonicalModel("m", layers, ("x",), outputs, specs, frozenset({"w", "b"}))
    network = materialize(model, 0)
    module = lower(network)
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    assert [node.target.__name__ for node in nodes] == calls
    assert nodes[0].meta["layer"].op == "MatMul"
    x = torch.from_numpy(network.inputs["x"])
    wanted = network.inputs["x"] @ network.weights["w"] + network.weights["b"]
    torch.testing.assert_close(module(x)[-1], torch.from_numpy(wanted))
