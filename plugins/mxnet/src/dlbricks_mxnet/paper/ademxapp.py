"""Ademxapp: Wu et al., "Wider or Deeper: Revisiting the ResNet Model", arXiv 1611.10080."""

from __future__ import annotations

from collections.abc import Iterator

from dlbricks_mxnet.paper.blocks import (
    Block,
    chain,
    conv,
    image_mean,
    nn,
    norm,
    pixel_softmax,
    preactivated,
    relu,
    softmax,
)

_EPSILON = 1.001e-5
# Units of two 3 x 3 convolutions by level: how many, and the channels of both.
_LEVELS = ((3, 128, 128), (3, 256, 256), (6, 512, 512), (3, 512, 1024))
# Then one unit with a bottleneck each: channels of its three convolutions.
_BOTTLENECKS = ((512, 1024, 2048), (1024, 2048, 4096))


def classifier(classes: int = 1000) -> Block:
    """Model A: a pooling before each level but the last halves the image.

    Args:
        classes: How many there are.
    """
    parts = [_conv(64, 3)]
    for level in _LEVELS:
        parts += [_pooling(), *_level(*level)]
    parts += [_pooling(), *(_bottleneck(channels) for channels in _BOTTLENECKS), *_activation()]
    return chain(*parts, image_mean(), nn.Dense(classes), softmax())


def segmentation(classes: int) -> Block:
    """Model A1: strides in three levels halve the image, dilations widen the view of the rest.

    Args:
        classes: How many there are; the result has them on its last axis.
    """
    first, second, third, fourth = _LEVELS
    parts = [_conv(64, 3)]
    for level in (first, second, third):
        parts += _level(*level, stride=2)
    parts += _level(*fourth, dilation=2)
    for channels, dropout in zip(_BOTTLENECKS, (0.3, 0.5), strict=True):
        parts.append(_bottleneck(channels, dilation=4, dropout=dropout))
    head = (conv(512, 3, 1, 12, dilation=12), relu(), conv(classes, 3, 1, 12, dilation=12))
    return chain(*parts, *_activation(), *head, *pixel_softmax())


def _conv(channels: int, kernel: int = 1, stride: int = 1, dilation: int = 1) -> Block:
    pad = kernel // 2 * dilation
    return conv(channels, kernel, stride, pad, dilation=dilation, use_bias=False)


def _pooling() -> Block:
    return nn.MaxPool2D(3, 2, 1)


def _activation() -> tuple[Block, Block]:
    return norm(_EPSILON), relu()


def _level(
    units: int, inner: int, outer: int, stride: int = 1, dilation: int = 1
) -> Iterator[Block]:
    """Units of two 3 x 3 convolutions; the first projects, and its first one has no dilation."""
    for unit in range(units):
        step, reach = (1, dilation) if unit else (stride, 1)
        body = chain(
            _conv(inner, 3, step, reach), *_activation(), _conv(outer, 3, dilation=dilation)
        )
        projection = None if unit else _conv(outer, 1, step)
        yield preactivated(chain(*_activation()), body, projection)


def _bottleneck(channels: tuple[int, int, int], dilation: int = 1, dropout: float = 0) -> Block:
    down, middle, up = channels
    body = chain(
        _conv(down),
        *_activation(),
        _conv(middle, 3, dilation=dilation),
        *_activation(),
        *([nn.Dropout(dropout)] if dropout else []),
        _conv(up),
    )
    return preactivated(chain(*_activation()), body, _conv(up))
