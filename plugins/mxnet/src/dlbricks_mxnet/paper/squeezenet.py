"""SqueezeNet 1.1: Iandola et al., "SqueezeNet: AlexNet-level accuracy", arXiv 1602.07360."""

from __future__ import annotations

from dlbricks_mxnet.paper.blocks import (
    Block,
    chain,
    concat,
    conv,
    edge_pooling,
    image_mean,
    nn,
    relu,
    softmax,
)


def squeezenet(classes: int = 1000) -> Block:
    """The network; its pooling after the first stage is unpadded, the others are not.

    Args:
        classes: How many there are.
    """
    return chain(
        *(conv(64, 3, 2), relu(), nn.MaxPool2D(3, 2)),
        *(_fire(16), _fire(16), edge_pooling()),
        *(_fire(32), _fire(32), edge_pooling()),
        *(_fire(48), _fire(48), _fire(64), _fire(64)),
        *(nn.Dropout(0.5), conv(classes), relu()),
        *(image_mean(), nn.Flatten(), softmax()),
    )


def _fire(squeezed: int) -> Block:
    """Few channels, then four times as many from each of two kinds of convolution."""
    return chain(
        conv(squeezed),
        relu(),
        concat(
            chain(conv(4 * squeezed), relu()),
            chain(conv(4 * squeezed, 3, pad=1), relu()),
        ),
    )
