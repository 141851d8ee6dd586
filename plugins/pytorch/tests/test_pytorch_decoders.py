"""Decoders run the operators that transformers runs, with the results of torch's own."""

import pytest
import torch
from dlbricks_pytorch.lowering.attention import both_halves, rotate, rotate_halves
from dlbricks_pytorch.lowering.normalization import rms_norm
from torch.profiler import ProfilerActivity, profile


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


def test_halves_are_rotated_as_pairs_are():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 5, 4, 16, generator=generator)
    angles = torch.randn(1, 5, 8, generator=generator)
    cos, sin = angles.cos(), angles.sin()
    wanted = rotate(x, cos.unsqueeze(2), sin.unsqueeze(2), 16, interleaved=False)
    found = rotate_halves(x, both_halves(cos, 2), both_halves(sin, 2))
    torch.testing.assert_close(found, wanted)
