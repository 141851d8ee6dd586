"""Face alignment: four stacked hourglasses, Bulat and Tzimiropoulos (arXiv 1703.07332)."""

from __future__ import annotations

from typing import Any

from dlbricks_mxnet.paper.blocks import (
    Block,
    HybridBlock,
    Layers,
    chain,
    concat,
    conv,
    conv_norm_relu,
    doubled,
    identity,
    nn,
    norm_relu_conv,
    total,
)

_WIDTH = 256
_LANDMARKS = 68


def fan() -> Block:
    """Heat maps of 64 times 64 of the 68 landmarks in a face of 256 times 256."""
    return chain(
        identity(),
        *conv_norm_relu(64, 7, 2, 3),
        _residual(64, 128),
        nn.AvgPool2D(2, 2),
        _residual(128, 128),
        _residual(128, _WIDTH),
        *(_Stage() for _ in range(3)),
        *_hourglass(),
        conv(_LANDMARKS),
    )


class _Stage(HybridBlock):
    """An hourglass; its features and its heat maps are added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.hourglass = chain(*_hourglass())
        self.features = conv(_WIDTH)
        self.heat_maps = chain(conv(_LANDMARKS), conv(_WIDTH))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        seen = self.hourglass(x)
        return F.add_n(x, self.features(seen), self.heat_maps(seen))


def _hourglass() -> Layers:
    return _level(4), _residual(), *conv_norm_relu(_WIDTH)


def _level(depth: int) -> Block:
    """A residual block beside all deeper levels at half the size."""
    inner = _level(depth - 1) if depth > 1 else _residual()
    small = chain(nn.AvgPool2D(2, 2), _residual(), inner, _residual(), doubled)
    return total(_residual(), small)


def _residual(inside: int = _WIDTH, outside: int = _WIDTH) -> Block:
    """Three convolutions one after another, and the results of all of them together.

    The first makes half of the channels, each other one a quarter.
    """
    quarter = outside // 4
    others = concat(identity(), chain(*_convolve(quarter)))
    first = (*_convolve(outside // 2), concat(identity(), chain(*_convolve(quarter), others)))
    shortcut = identity() if inside == outside else chain(*norm_relu_conv(outside))
    return total(chain(*first), shortcut)


def _convolve(width: int) -> Layers:
    return norm_relu_conv(width, 3, 1, 1)
