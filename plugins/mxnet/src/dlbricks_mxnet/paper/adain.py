"""Style transfer by adaptive instance normalization, Huang and Belongie (arXiv 1703.06868)."""

from __future__ import annotations

from typing import Any

from dlbricks_mxnet.paper.blocks import Block, HybridBlock, Layers, chain, conv, doubled, nn, relu


def adain() -> Block:
    """A content and a style image of any size; the content in that style."""
    return _StyleTransfer()


class _StyleTransfer(HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.content_encoder = _encoder()
        self.style_encoder = _encoder()
        self.decoder = _decoder()

    def hybrid_forward(self, F: Any, content: Any, style: Any) -> Any:
        content, style = self.content_encoder(content), self.style_encoder(style)
        return self.decoder(_normalize(F, content, style))


def _conv(width: int) -> Layers:
    return nn.ReflectionPad2D(1), conv(width, 3)


def _conv_relu(width: int) -> Layers:
    return *_conv(width), relu()


def _encoder() -> Block:
    """VGG-19 up to the first convolution of its fourth stage."""
    parts: list[Block] = []
    for stage in ((64, 64), (128, 128), (256,) * 4):
        parts += [part for width in stage for part in _conv_relu(width)]
        parts.append(nn.MaxPool2D(2, 2))
    return chain(*parts, *_conv_relu(512))


def _decoder() -> Block:
    """The encoder's mirror image; sizes double where that has its poolings."""
    parts: list[Any] = []
    for stage in ((256,), (256, 256, 256, 128), (128, 64)):
        parts += [part for width in stage for part in _conv_relu(width)]
        parts.append(doubled)
    return chain(*parts, *_conv_relu(64), *_conv(3))


def _normalize(F: Any, content: Any, style: Any) -> Any:
    """Gives the content's channels the mean and the deviation of the style's.

    The authors' library computes each statistic where it is needed: every mean twice.
    """
    centered = content - _mean(F, content)
    scaled = centered / (_deviation(F, content) + 1e-6) * _deviation(F, style)
    return scaled + _mean(F, style)


def _mean(F: Any, x: Any) -> Any:
    return F.broadcast_like(F.mean(x, axis=(2, 3), keepdims=True), x)


def _deviation(F: Any, x: Any) -> Any:
    variance = F.mean(F.square(x - _mean(F, x)), axis=(2, 3), keepdims=True)
    return F.broadcast_like(F.sqrt(variance), x)
