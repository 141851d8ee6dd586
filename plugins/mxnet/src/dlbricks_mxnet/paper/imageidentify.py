"""Wolfram ImageIdentify Net V1: Inception modules with batch normalization.

Of the kind that Ioffe and Szegedy, "Batch Normalization", ICML 2015, trained.
"""

from __future__ import annotations

from dlbricks_mxnet.paper.blocks import Block, Layers, chain, concat, conv, nn, norm, relu, softmax

_EPSILON = 1.00001e-5

_Reduced = tuple[int, int]  # channels of a 1 x 1 convolution and of the 3 x 3 after it


def imageidentify(classes: int = 4315) -> Block:
    """The network.

    Args:
        classes: How many there are.
    """
    return chain(
        *(*_conv(64, 7, 2), nn.MaxPool2D(3, 2)),
        *(*_conv(64), *_conv(192, 3), nn.MaxPool2D(3, 2)),
        _module(64, (64, 64), (64, 96), 32),
        _module(64, (64, 96), (64, 96), 64),
        _halving((128, 160), (64, 96)),
        _module(224, (64, 96), (96, 128), 128),
        _module(192, (96, 128), (96, 128), 128),
        _module(160, (128, 160), (128, 160), 128),
        _module(96, (128, 192), (160, 192), 128),
        _halving((128, 192), (192, 256)),
        _module(352, (192, 320), (160, 224), 128),
        _module(352, (192, 320), (192, 224), 128, pool=nn.MaxPool2D),
        *(nn.AvgPool2D(7, 1), nn.Dense(classes), softmax()),
    )


def _conv(channels: int, kernel: int = 1, stride: int = 1) -> Layers:
    return conv(channels, kernel, stride, kernel // 2), norm(_EPSILON), relu()


def _once(channels: _Reduced, stride: int = 1) -> Block:
    return chain(*_conv(channels[0]), *_conv(channels[1], 3, stride))


def _twice(channels: _Reduced, stride: int = 1) -> Block:
    reduced, wide = channels
    return chain(*_conv(reduced), *_conv(wide, 3), *_conv(wide, 3, stride))


def _module(
    single: int, once: _Reduced, twice: _Reduced, pooled: int, pool: Block = nn.AvgPool2D
) -> Block:
    """Branches of one 1 x 1, one 3 x 3, two 3 x 3, and of pooling."""
    projection = chain(pool(3, 1, 1), *_conv(pooled))
    return concat(chain(*_conv(single)), _once(once), _twice(twice), projection)


def _halving(once: _Reduced, twice: _Reduced) -> Block:
    """A module that halves the image; its pooled branch keeps all channels."""
    return concat(_once(once, 2), _twice(twice, 2), nn.MaxPool2D(3, 2, 1))
