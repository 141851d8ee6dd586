"""Unguided volumetric regression of a face's shape, Jackson et al. (arXiv 1703.07834)."""

from __future__ import annotations

from typing import Any

from dlbricks_mxnet.paper.blocks import (
    Block,
    chain,
    conv,
    conv_norm_relu,
    doubled,
    identity,
    nn,
    norm_relu_conv,
    total,
)

_WIDTH = 256
_SLICES = 200


def vrn() -> Block:
    """A volume of 200 slices of 192 times 192 from an image of a face of that size."""
    return chain(
        *conv_norm_relu(64, 7, 2, 3),
        _bottleneck(64, 64, 128),
        nn.MaxPool2D(2, 2),
        _bottleneck(128, 64, 128),
        _bottleneck(128, 128, _WIDTH),
        _stage(),
        _stage(),
        *conv_norm_relu(_WIDTH),
        conv(_SLICES),
        _full_size,
        lambda F, x: F.sigmoid(x),
    )


def _full_size(F: Any, x: Any) -> Any:
    return F.contrib.BilinearResize2D(x, height=192, width=192)


def _stage() -> Block:
    hourglass = chain(_level(4), _bottleneck(), *conv_norm_relu(_WIDTH), *conv_norm_relu(_WIDTH))
    return total(identity(), hourglass)


def _level(depth: int) -> Block:
    """Two branches, the second at half the size.

    The deeper levels are in the first branch: unlike in other hourglasses, sizes are halved
    only once.
    """
    inner = (_level(depth - 1), _bottleneck()) if depth > 1 else ()
    small = (_bottleneck() for _ in range(6 if depth > 1 else 9))
    return total(
        chain(*(_bottleneck() for _ in range(3)), *inner),
        chain(nn.MaxPool2D(2, 2), *small, doubled),
    )


def _bottleneck(inside: int = _WIDTH, middle: int = _WIDTH // 2, outside: int = _WIDTH) -> Block:
    """A residual block with normalization and activation before each convolution."""
    sizes = ((middle, 1, 1, 0), (middle, 3, 1, 1), (outside, 1, 1, 0))
    parts = (part for size in sizes for part in norm_relu_conv(*size))
    return total(chain(*parts), identity() if inside == outside else conv(outside))
