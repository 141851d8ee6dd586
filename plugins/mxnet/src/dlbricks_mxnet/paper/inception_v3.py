"""Inception V3: Szegedy et al., "Rethinking the Inception Architecture", CVPR 2016."""

from __future__ import annotations

from collections.abc import Iterator

from dlbricks_mxnet.paper.blocks import (
    Block,
    Branches,
    chain,
    concat,
    conv,
    nn,
    norm,
    relu,
    softmax,
)

_CLASSES = 1001
_OUTPUTS = 1008  # number of outputs of the published weights; the last seven have no meaning
_Kernel = int | tuple[int, int]
_ROW, _COLUMN = (1, 7), (7, 1)


def inception_v3() -> Block:
    """The network for ImageNet without its auxiliary classifier."""
    return chain(
        *_stem(),
        *(_small(pooled) for pooled in (32, 64, 64)),
        _shrink_to_17(),
        *(_factorized(inner) for inner in (128, 160, 160, 192)),
        _shrink_to_8(),
        _wide(nn.AvgPool2D(3, 1, 1)),
        _wide(nn.MaxPool2D(3, 1, 1)),
        nn.AvgPool2D(8, 1),
        nn.Flatten(),
        nn.Dense(_OUTPUTS),
        nn.HybridLambda(lambda F, x: F.slice_axis(x, axis=1, begin=0, end=_CLASSES)),
        softmax(),
    )


def _convs(*layers: tuple[int, _Kernel], last_stride: int = 1) -> Block:
    """Convolutions, each normalized and activated; a stride is that of the last, unpadded."""
    return chain(*_parts(layers, last_stride))


def _parts(layers: tuple[tuple[int, _Kernel], ...], last_stride: int) -> Iterator[Block]:
    for i, (channels, kernel) in enumerate(layers):
        sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
        stride = last_stride if i == len(layers) - 1 else 1
        pad = (sizes[0] // 2, sizes[1] // 2) if stride == 1 else 0
        yield from (conv(channels, sizes, stride, pad, use_bias=False), norm(1e-3), relu())


def _stem() -> Iterator[Block]:
    for channels, kernel, stride, pad, pool in (
        (32, 3, 2, 0, False),
        (32, 3, 1, 0, False),
        (64, 3, 1, 1, True),
        (80, 1, 1, 0, False),
        (192, 3, 1, 0, True),
    ):
        yield from (conv(channels, kernel, stride, pad, use_bias=False), norm(1e-3), relu())
        if pool:
            yield nn.MaxPool2D(3, 2)


def _small(pooled: int) -> Block:
    """35 x 35."""
    return concat(
        _convs((64, 1)),
        _convs((48, 1), (64, 5)),
        _convs((64, 1), (96, 3), (96, 3)),
        chain(nn.AvgPool2D(3, 1, 1), _convs((pooled, 1))),
    )


def _shrink_to_17() -> Block:
    return concat(
        _convs((384, 3), last_stride=2),
        _convs((64, 1), (96, 3), (96, 3), last_stride=2),
        nn.MaxPool2D(3, 2),
    )


def _factorized(inner: int) -> Block:
    """17 x 17; rows of seven and columns of seven instead of squares."""
    return concat(
        _convs((192, 1)),
        _convs((inner, 1), (inner, _ROW), (192, _COLUMN)),
        _convs((inner, 1), (inner, _COLUMN), (inner, _ROW), (inner, _COLUMN), (192, _ROW)),
        chain(nn.AvgPool2D(3, 1, 1), _convs((192, 1))),
    )


def _shrink_to_8() -> Block:
    return concat(
        _convs((192, 1), (320, 3), last_stride=2),
        _convs((192, 1), (192, _ROW), (192, _COLUMN), (192, 3), last_stride=2),
        nn.MaxPool2D(3, 2),
    )


def _wide(pool: Block) -> Block:
    """8 x 8; two of the branches end in a row and a column side by side."""
    return Branches(
        lambda F, single, two, three, pooled: F.concat(single, *two, *three, pooled, dim=1),
        _convs((320, 1)),
        chain(_convs((384, 1)), _row_and_column()),
        chain(_convs((448, 1), (384, 3)), _row_and_column()),
        chain(pool, _convs((192, 1))),
    )


def _row_and_column() -> Block:
    return Branches(lambda F, *ends: ends, _convs((384, (1, 3))), _convs((384, (3, 1))))
