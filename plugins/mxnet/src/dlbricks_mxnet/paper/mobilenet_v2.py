"""MobileNet V2: Sandler et al., "Inverted Residuals and Linear Bottlenecks", CVPR 2018."""

from __future__ import annotations

from typing import Any

from dlbricks_mxnet.export_pads import PART_OF_CONVOLUTION
from dlbricks_mxnet.paper.blocks import (
    Block,
    HybridBlock,
    chain,
    conv,
    flatten_by_reshape,
    mx,
    nn,
    norm,
    softmax,
    total,
)

# Expansion, channels, units, stride of the first of them: the paper's Table 2.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(width: float = 1.4, classes: int = 1001) -> Block:
    """The network.

    Args:
        width: Factor of all channels.
        classes: How many there are, the background among them.
    """
    channels = _round(32 * width)
    parts = [*_conv(channels, 3, 2), _relu6()]
    for expansion, base, units, first_stride in _STAGES:
        previous, channels = channels, _round(base * width)
        for unit in range(units):
            stride = 1 if unit else first_stride
            body = _body(previous, expansion, channels, stride)
            parts.append(total(body, None) if unit else body)
            previous = channels
    last = (*_conv(_round(1280 * width)), _relu6(), nn.AvgPool2D(7, 1))
    return chain(*parts, *last, conv(classes), flatten_by_reshape(), softmax())


def _round(channels: float) -> int:
    """To the nearest multiple of eight."""
    return int(channels + 4) // 8 * 8


def _body(inputs: int, expansion: int, outputs: int, stride: int) -> Block:
    """More channels, each convolved alone, and back to few of them."""
    inner = inputs * expansion
    expand = (*_conv(inner), _relu6()) if expansion > 1 else ()
    return chain(*expand, *_conv(inner, 3, stride, groups=inner), _relu6(), *_conv(outputs))


def _conv(channels: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> tuple[Block, Block]:
    more = {"groups": groups, "use_bias": False}
    if stride == 1:
        return conv(channels, kernel, 1, kernel // 2, **more), norm(1e-3)
    return _PaddedBehind(conv(channels, kernel, stride, **more)), norm(1e-3)


def _relu6() -> Block:
    return nn.HybridLambda(lambda F, x: F.clip(x, 0, 6))


class _PaddedBehind(HybridBlock):
    """A convolution of 3 x 3 with two zeros behind each axis and none before."""

    def __init__(self, convolution: Block) -> None:
        super().__init__(prefix="")
        self._convolution = convolution
        self.register_child(convolution)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """In MXNet two operators; its import makes one of them."""
        with mx.AttrScope(**PART_OF_CONVOLUTION):
            x = F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 0, 2, 0, 2))
        return self._convolution(x)
