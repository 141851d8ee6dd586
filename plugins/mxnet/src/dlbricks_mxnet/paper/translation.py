"""Image-to-image translation: the generators of CycleGAN and pix2pix.

CycleGAN is the residual generator of Zhu et al. (arXiv 1703.10593) with nine blocks and
half the published widths; pix2pix is the U-Net of Isola et al. (arXiv 1611.07004) with
instance normalization. Both map pixels from 0 to 1 to pixels from 0 to 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dlbricks_mxnet.paper.blocks import Block, Layers, chain, concat, conv, nn, relu, total


def to_signed(F: Any, x: Any) -> Any:
    """From 0..1 to -1..1; a function of one layer in the table, two operators."""
    return x * 2.0 - 1.0


def tanh_pixels(F: Any, x: Any) -> Any:
    """To 0..1 through tanh; a function of one layer in the table, three operators."""
    return F.tanh(x) * 0.5 + 0.5


def cyclegan(*, reflect: bool = False) -> Block:
    """The generator of CycleGAN for images of 256 times 256.

    Args:
        reflect: Whether the convolutions that halve the size see a reflected border, which
            is a layer of its own, rather than zeros.
    """
    return chain(
        to_signed,
        *_framed(32, 7),
        *(part for width in (64, 128) for part in _halve(width, reflect)),
        *(_residual(128) for _ in range(9)),
        *(part for width in (64, 32) for part in _double(width)),
        nn.ReflectionPad2D(3),
        conv(3, 7),
        tanh_pixels,
    )


def _instance_norm() -> Block:
    return nn.InstanceNorm(epsilon=1e-5)


def _framed(width: int, kernel: int, stride: int = 1) -> Layers:
    """A convolution behind a reflected border."""
    border = nn.ReflectionPad2D(kernel // 2)
    return border, conv(width, kernel, stride), _instance_norm(), relu()


def _halve(width: int, reflect: bool) -> Layers:
    if reflect:
        return _framed(width, 3, stride=2)
    return conv(width, 3, 2, 1), _instance_norm(), relu()


def _residual(width: int) -> Block:
    border = nn.ReflectionPad2D(1)
    return total(chain(*_framed(width, 3), border, conv(width, 3), _instance_norm()), None)


def _double(width: int) -> tuple[Any, ...]:
    """A transposed convolution, whose one row and column too many are cut off."""

    def cut(F: Any, x: Any) -> Any:
        return F.slice(x, begin=(0, 0, 1, 1), end=(None,) * 4)

    return nn.Conv2DTranspose(width, 3, 2), cut, _instance_norm(), relu()


def pix2pix() -> Block:
    """The U-Net of pix2pix for images of 256 times 256."""
    widths = (64, 128, 256, 512, 512, 512, 512, 512)
    inner: Layers = ()
    levels = list(pairwise(widths))
    for level, (outside, inside) in reversed(list(enumerate(levels))):
        parts = (
            nn.LeakyReLU(0.2),
            conv(inside, 4, 2, 1),
            *((nn.InstanceNorm(epsilon=1e-3), *inner) if inner else ()),
            relu(),
            nn.Conv2DTranspose(outside, 4, 2, 1),
            nn.InstanceNorm(epsilon=1e-3),
            *((nn.Dropout(0.5),) if level >= len(levels) - 3 else ()),
        )
        inner = (concat(None, chain(*parts)),)
    return chain(
        to_signed,
        conv(widths[0], 4, 2, 1),
        *inner,
        relu(),
        nn.Conv2DTranspose(3, 4, 2, 1),
        tanh_pixels,
    )
