"""Residual networks of bottleneck units.

He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, as first published
for Caffe, and "Identity Mappings in Deep Residual Networks", ECCV 2016 (pre-activation);
Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_mxnet.paper.blocks import (
    Block,
    chain,
    conv,
    edge_pooling,
    flatten_by_reshape,
    image_mean,
    nn,
    norm,
    preactivated,
    relu,
    softmax,
    total,
)

_EXPANSION = 4  # of a unit's width to its output, in the networks of 2015


def resnet(
    depths: Sequence[int], classes: int = 1000, width: int = 64, bias: bool = False
) -> Block:
    """The networks of 2015: units that halve the image do so in their first convolution.

    Args:
        depths: How many units each of the four stages has.
        classes: How many there are.
        width: Channels inside the units of the first stage; each stage doubles them.
        bias: Whether all convolutions have one.
    """
    parts = [*_stem(1e-4, bias), edge_pooling()]
    for stage, depth in enumerate(depths):
        inner = width << stage
        for unit in range(depth):
            stride = 2 if stage and not unit else 1
            body = _body(inner, inner * _EXPANSION, (stride, 1, 1), 1e-4, bias)
            shortcut = _projection(inner * _EXPANSION, stride, 1e-4, bias) if not unit else None
            parts += [total(shortcut, body), relu()]
    return chain(*parts, nn.AvgPool2D(7, 1), nn.Flatten(), nn.Dense(classes), softmax())


def wide_resnet(depths: Sequence[int], widening: int, classes: int = 1000) -> Block:
    """Units with wider 3 x 3 convolutions, which also halve the image.

    Args:
        depths: How many units each of the four stages has.
        widening: How many times as wide they are.
        classes: How many there are.
    """
    parts = [*_stem(1e-5), nn.MaxPool2D(3, 2, 1)]
    for stage, depth in enumerate(depths):
        inner, outer = 64 * widening << stage, 256 << stage
        for unit in range(depth):
            stride = 2 if stage and not unit else 1
            body = _body(inner, outer, (1, stride, 1), 1e-5)
            shortcut = _projection(outer, stride, 1e-5) if not unit else None
            parts += [total(body, shortcut), relu()]
    head = (nn.AvgPool2D(7, 1), flatten_by_reshape(), nn.Dense(classes), softmax())
    return chain(*parts, *head)


def preactivated_resnet(depths: Sequence[int], classes: int) -> Block:
    """Units that normalize and activate before each convolution, not after.

    Args:
        depths: How many units each of the four stages has.
        classes: How many there are.
    """
    parts = [norm(2e-5), *_stem(2e-5), nn.MaxPool2D(3, 2, 1)]
    for stage, depth in enumerate(depths):
        inner = 64 << stage
        for unit in range(depth):
            stride = 2 if stage and not unit else 1
            shortcut = None if unit else conv(inner * _EXPANSION, 1, stride, use_bias=False)
            parts.append(preactivated(*_preactivated(inner, inner * _EXPANSION, stride), shortcut))
    head = (norm(2e-5), relu(), image_mean(), nn.Dense(classes), softmax())
    return chain(*parts, *head)


def _stem(epsilon: float, bias: bool = False) -> list[Block]:
    return [conv(64, 7, 2, 3, use_bias=bias), norm(epsilon), relu()]


def _body(
    inner: int, outer: int, strides: Sequence[int], epsilon: float, bias: bool = False
) -> Block:
    """Down to fewer channels, 3 x 3, and up to more of them."""
    down, middle, up = strides
    return chain(
        conv(inner, 1, down, use_bias=bias),
        norm(epsilon),
        relu(),
        conv(inner, 3, middle, 1, use_bias=bias),
        norm(epsilon),
        relu(),
        conv(outer, 1, up, use_bias=bias),
        norm(epsilon),
    )


def _projection(channels: int, stride: int, epsilon: float, bias: bool = False) -> Block:
    return chain(conv(channels, 1, stride, use_bias=bias), norm(epsilon))


def _preactivated(inner: int, outer: int, stride: int) -> tuple[Block, Block]:
    """The initial activation of a unit, and its body."""
    body = chain(
        conv(inner, use_bias=False),
        norm(2e-5),
        relu(),
        conv(inner, 3, stride, 1, use_bias=False),
        norm(2e-5),
        relu(),
        conv(outer, use_bias=False),
    )
    return chain(norm(2e-5), relu()), body
