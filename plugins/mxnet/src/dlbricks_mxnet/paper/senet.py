"""SENet-154: Hu et al., "Squeeze-and-Excitation Networks", CVPR 2018."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlbricks_mxnet.paper.blocks import (
    Block,
    Branches,
    chain,
    conv,
    edge_pooling,
    image_mean,
    nn,
    norm,
    relu,
    softmax,
    total,
)

_EPSILON = 1e-4
_GROUPS = 64
_REDUCTION = 16


def senet(depths: Sequence[int], classes: int = 1000) -> Block:
    """Residual units of grouped convolutions, each with an excitation of its channels.

    Args:
        depths: How many units each of the four stages has.
        classes: How many there are.
    """
    parts = [*_conv(64, 3, 2), relu(), *_conv(64, 3), relu(), *_conv(128, 3), relu()]
    parts.append(edge_pooling())
    for stage, depth in enumerate(depths):
        channels = 256 << stage
        for unit in range(depth):
            stride = 2 if stage and not unit else 1
            shortcut = None if unit else chain(*_conv(channels, 3 if stage else 1, stride))
            parts += [total(shortcut, _body(channels, stride)), relu()]
    head = (nn.AvgPool2D(7, 1), nn.Dropout(0.2), nn.Flatten(), nn.Dense(classes), softmax())
    return chain(*parts, *head)


def _conv(channels: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> tuple[Block, Block]:
    window = (kernel, stride, kernel // 2)
    return conv(channels, *window, groups=groups, use_bias=False), norm(_EPSILON)


def _body(channels: int, stride: int) -> Block:
    return chain(
        *(*_conv(channels // 2), relu()),
        *(*_conv(channels, 3, stride, _GROUPS), relu()),
        *_conv(channels),
        Branches(_scale, None, _excitation(channels)),
    )


def _excitation(channels: int) -> Block:
    """A factor for each channel, from the means of all of them."""
    sigmoid = nn.Activation("sigmoid")
    return chain(
        image_mean(), nn.Dense(channels // _REDUCTION), relu(), nn.Dense(channels), sigmoid
    )


def _scale(F: Any, images: Any, factors: Any) -> Any:
    """Each channel times its factor, repeated for every pixel as in the paper's table.

    Neither MXNet nor ONNX repeats a number along missing axes, so a reshape adds them.
    """
    return images * F.broadcast_like(F.reshape(factors, (0, 0, 1, 1)), images)
