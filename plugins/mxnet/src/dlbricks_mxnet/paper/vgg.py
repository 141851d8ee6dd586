"""VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks", ICLR 2015."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlbricks_mxnet.paper.blocks import Block, chain, conv, nn, relu, softmax

_CHANNELS = (64, 128, 256, 512, 512)
_UNITS = 4096


def vgg(convolutions: Sequence[int], classes: int) -> Block:
    """The classifier; in the paper's table for ImageNet, ages in years and genders.

    Args:
        convolutions: How many of them each of the five stages has.
        classes: How many there are.
    """
    return chain(*_stages(convolutions), nn.Flatten(), *_head(classes))


def _stages(convolutions: Sequence[int]) -> Iterator[Block]:
    for count, channels in zip(convolutions, _CHANNELS, strict=True):
        for _ in range(count):
            yield from (conv(channels, 3, pad=1), relu())
        yield nn.MaxPool2D(2, 2)


def _head(classes: int) -> Iterator[Block]:
    for _ in range(2):
        yield from (nn.Dense(_UNITS), relu(), nn.Dropout(0.5))
    yield from (nn.Dense(classes), softmax())
