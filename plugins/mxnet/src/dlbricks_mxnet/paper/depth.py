"""Depth from a single image: an hourglass of inception modules, Chen et al. (arXiv 1604.03901)."""

from __future__ import annotations

from functools import partial

from dlbricks_mxnet.paper.blocks import (
    Block,
    Layers,
    chain,
    concat,
    conv,
    conv_norm_relu,
    doubled,
    nn,
    total,
)


def depth_in_the_wild() -> Block:
    """The depth of every pixel, without an axis of channels; sizes are multiples of 16."""
    return chain(
        *_convolve(128, 7),
        _hourglass(),
        conv(1, 3, 1, 1),
        lambda F, x: F.squeeze(x, axis=1),
    )


def _hourglass() -> Block:
    """Four levels, each beside the deeper ones at half its size, written from the deepest."""
    wide = partial(_inception, 64, 32)
    narrow = partial(_inception, 32, 32)
    level = total(
        chain(wide(), wide()),
        chain(nn.AvgPool2D(2, 2), wide(), wide(), wide(), doubled),
    )
    level = total(
        chain(wide(), _inception(64, 64, far=True)),
        chain(
            nn.AvgPool2D(2, 2),
            wide(),
            wide(),
            level,
            wide(),
            _inception(64, 64, far=True),
            doubled,
        ),
    )
    level = total(
        chain(nn.MaxPool2D(2, 2), narrow(), wide(), level, wide(), narrow(), doubled),
        chain(narrow(), _inception(32, 64, far=True)),
    )
    return total(
        chain(
            nn.MaxPool2D(2, 2),
            narrow(),
            narrow(),
            level,
            _inception(32, 64),
            _inception(16, 32, far=True),
            doubled,
        ),
        _inception(16, 64, far=True),
    )


def _inception(width: int, middle: int, *, far: bool = False) -> Block:
    """Four branches of ``width`` channels, three of them through ``middle`` channels.

    Args:
        width: Channels that each branch gives.
        middle: Channels between a branch's two convolutions.
        far: Whether kernels are of 7 and 11 rather than 5 and 7 pixels.
    """
    kernels = (3, 7, 11) if far else (3, 5, 7)
    branches = (chain(*_convolve(middle, 1), *_convolve(width, kernel)) for kernel in kernels)
    return concat(chain(*_convolve(width, 1)), *branches)


def _convolve(width: int, kernel: int) -> Layers:
    """A convolution that keeps the size."""
    return conv_norm_relu(width, kernel, 1, kernel // 2)
