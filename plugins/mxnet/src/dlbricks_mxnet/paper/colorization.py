"""Colorization: from the lightness of an image to its two channels of color.

``colorful`` is of Zhang et al. (arXiv 1603.08511), ``colornet`` of Iizuka et al. ("Let there
be Color!", SIGGRAPH 2016).
"""

from __future__ import annotations

from typing import Any

from dlbricks_mxnet.paper.blocks import (
    Block,
    HybridBlock,
    chain,
    conv,
    doubled,
    nn,
    norm,
    pixel_softmax,
    relu,
)


def _conv_relu(width: int, kernel: int = 3, stride: int = 1, dilation: int = 1) -> tuple[Any, ...]:
    """A convolution that keeps the size but for its stride."""
    pad = kernel // 2 * dilation
    return conv(width, kernel, stride, pad, dilation=dilation), relu()


def colorful() -> Block:
    """Weighs 313 colors for every fourth pixel and mixes them."""
    parts: list[Any] = []
    for width, count, stride, dilation in (
        (64, 2, 2, 1),
        (128, 2, 2, 1),
        (256, 3, 2, 1),
        (512, 3, 1, 1),
        (512, 3, 1, 2),
        (512, 3, 1, 2),
        (512, 3, 1, 1),
    ):
        for _ in range(count - 1):
            parts += _conv_relu(width, dilation=dilation)
        parts += [*_conv_relu(width, stride=stride, dilation=dilation), norm(1e-4)]
    return chain(
        *parts,
        nn.Conv2DTranspose(256, 4, 2, 1),
        relu(),
        *_conv_relu(256),
        *_conv_relu(256),
        conv(313),
        lambda F, x: x * 2.606,
        *pixel_softmax(),
        lambda F, x: F.transpose(x, axes=(0, 3, 1, 2)),
        conv(2),
        lambda F, x: x * 0.01,
    )


def colornet(*, fusion: int) -> Block:
    """Joins local features with features of the whole image.

    Args:
        fusion: Kernel size of the convolution behind the join.
    """
    return _ColorNet(fusion)


class _ColorNet(HybridBlock):
    def __init__(self, fusion: int) -> None:
        super().__init__()
        self.local = chain(*_low_level(), *_conv_relu(512), *_conv_relu(256))
        self.whole = chain(
            lambda F, x: F.contrib.BilinearResize2D(x, height=224, width=224),
            *_low_level(),
            *(part for stride in (2, 1, 2, 1) for part in _conv_relu(512, stride=stride)),
            nn.Flatten(),
            *(part for width in (1024, 512, 256) for part in (nn.Dense(width), relu())),
        )
        self.colors = chain(
            *_conv_relu(256, fusion),
            *_conv_relu(128),
            doubled,
            *_conv_relu(64),
            *_conv_relu(64),
            doubled,
            *_conv_relu(32),
            conv(2, 3, 1, 1),
            nn.Activation("sigmoid"),
            lambda F, x: F.contrib.BilinearResize2D(x, scale_height=2, scale_width=2),
            lambda F, x: x * 2.0 - 1.0,
        )

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        local = self.local(x)
        # A vector has no axes to be repeated along: ONNX and MXNet need it reshaped first.
        whole = F.broadcast_like(F.reshape(self.whole(x), shape=(0, 0, 1, 1)), local)
        return self.colors(F.concat(local, whole, dim=1))


def _low_level() -> tuple[Any, ...]:
    widths = ((64, 2), (128, 1), (128, 2), (256, 1), (256, 2), (512, 1))
    return tuple(part for width, stride in widths for part in _conv_relu(width, stride=stride))
