"""Inception V1: Szegedy et al., "Going Deeper with Convolutions", CVPR 2015."""

from __future__ import annotations

from dlbricks_mxnet.paper.blocks import (
    Block,
    chain,
    concat,
    conv,
    edge_pooling,
    nn,
    relu,
    softmax,
)

# Channels by branch: 1 x 1; 3 x 3 after a reduction; 5 x 5 after a reduction; after pooling.
_Branches = tuple[int, tuple[int, int], tuple[int, int], int]
_STAGES: tuple[tuple[_Branches, ...], ...] = (
    (
        (64, (96, 128), (16, 32), 32),
        (128, (128, 192), (32, 96), 64),
    ),
    (
        (192, (96, 208), (16, 48), 64),
        (160, (112, 224), (24, 64), 64),
        (128, (128, 256), (24, 64), 64),
        (112, (144, 288), (32, 64), 64),
        (256, (160, 320), (32, 128), 128),
    ),
    (
        (256, (160, 320), (32, 128), 128),
        (384, (192, 384), (48, 128), 128),
    ),
)


def inception_v1(classes: int) -> Block:
    """The network without its auxiliary classifiers.

    Args:
        classes: How many there are.
    """
    parts = [
        *_conv(64, 7, 2),
        edge_pooling(),
        _response_norm(),
        *_conv(64, 1),
        *_conv(192, 3),
        _response_norm(),
    ]
    for stage in _STAGES:
        parts += [edge_pooling(), *(_module(*branches) for branches in stage)]
    head = (nn.AvgPool2D(7, 1), nn.Dropout(0.4), nn.Flatten(), nn.Dense(classes), softmax())
    return chain(*parts, *head)


def _conv(channels: int, kernel: int, stride: int = 1) -> tuple[Block, Block]:
    return conv(channels, kernel, stride, kernel // 2), relu()


def _module(single: int, three: tuple[int, int], five: tuple[int, int], pooled: int) -> Block:
    return concat(
        chain(*_conv(single, 1)),
        chain(*_conv(three[0], 1), *_conv(three[1], 3)),
        chain(*_conv(five[0], 1), *_conv(five[1], 5)),
        chain(nn.MaxPool2D(3, 1, 1), *_conv(pooled, 1)),
    )


def _response_norm() -> Block:
    """Local response normalization over two channels to each side."""
    return nn.HybridLambda(lambda F, x: F.LRN(x, nsize=5, alpha=1e-4, beta=0.75, knorm=1))
