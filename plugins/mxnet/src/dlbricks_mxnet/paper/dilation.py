"""Segmentation with dilated convolutions, Yu and Koltun (arXiv 1511.07122)."""

from __future__ import annotations

from dlbricks_mxnet.paper.blocks import Block, chain, conv, nn, pixel_softmax, relu

_STAGES = ((64, 2, 1), (128, 2, 1), (256, 3, 1), (512, 3, 1), (512, 3, 2))
"""Channels, convolutions and their dilation; a pooling follows the first three."""


def context_aggregation(*, classes: int) -> Block:
    """The front end, a VGG-16 without padding and its last poolings, and the context module."""
    parts: list[Block] = []
    for stage, (width, depth, dilation) in enumerate(_STAGES):
        parts += (p for _ in range(depth) for p in (conv(width, 3, dilation=dilation), relu()))
        if stage < 3:
            parts.append(nn.MaxPool2D(2, 2))
    for kernel, dilation in ((7, 4), (1, 1)):
        parts += (conv(4096, kernel, dilation=dilation), relu(), nn.Dropout(0.5))
    parts.append(conv(classes))
    for dilation in (1, 1, 2, 4, 8, 16, 1):
        parts += (conv(classes, 3, 1, dilation, dilation=dilation), relu())
    return chain(*parts, conv(classes), *pixel_softmax())
