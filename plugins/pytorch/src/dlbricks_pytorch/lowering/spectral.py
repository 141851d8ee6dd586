"""Fourier transforms."""

from __future__ import annotations

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers


@lowers("DFT")
def _dft(ctx: LayerContext) -> Node:
    rank = ctx.rank(0)
    axis = (ctx.integer(2) if ctx.has(2) else -2) % rank
    inverse = bool(ctx.attribute("inverse"))
    onesided = bool(ctx.attribute("onesided"))
    length = ctx.integer(1) if ctx.has(1) else None
    if onesided and inverse:
        return ctx.call(real_inverse, ctx.input(0), ctx.out_shape()[axis], axis)
    return ctx.call(fourier, ctx.input(0), length, axis, inverse, onesided)


def fourier(
    x: torch.Tensor, length: int | None, axis: int, inverse: bool, onesided: bool
) -> torch.Tensor:
    """Transform of real (last axis 1) or complex (2) numbers to pairs of numbers."""
    signal = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.squeeze(-1)
    if onesided:
        signal = signal.real if signal.is_complex() else signal
        return torch.view_as_real(torch.fft.rfft(signal, length, axis))
    function = torch.fft.ifft if inverse else torch.fft.fft
    spectrum: torch.Tensor = function(signal, length, axis)
    return torch.view_as_real(spectrum)


def real_inverse(x: torch.Tensor, length: int, axis: int) -> torch.Tensor:
    """Inverse transform of half a spectrum to real numbers."""
    spectrum = torch.view_as_complex(x.contiguous())
    signal: torch.Tensor = torch.fft.irfft(spectrum, length, axis)
    return signal.unsqueeze(-1)


@lowers("STFT")
def _stft(ctx: LayerContext) -> Node:
    step = ctx.integer(1)
    length = ctx.integer(3) if ctx.has(3) else ctx.shape(2)[0]
    onesided = bool(ctx.attribute("onesided"))
    return ctx.call(frames, ctx.input(0), ctx.optional(2), step, length, onesided)


def frames(
    x: torch.Tensor, window: torch.Tensor | None, step: int, length: int, onesided: bool
) -> torch.Tensor:
    """Transforms of overlapping frames."""
    signal = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.squeeze(-1)
    cut = signal.unfold(1, length, step)
    cut = cut if window is None else cut * window
    if onesided and not cut.is_complex():
        return torch.view_as_real(torch.fft.rfft(cut))
    spectrum = torch.view_as_real(torch.fft.fft(cut))
    return spectrum[:, :, : length // 2 + 1] if onesided else spectrum
