"""Building blocks that several families share.

Each gives the layers that the paper counts, one operator for one layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlbricks_mxnet.framework import import_mxnet

mx = import_mxnet()
nn = mx.gluon.nn
HybridBlock = mx.gluon.HybridBlock

Block = Any
"""A Gluon ``HybridBlock``; MXNet has no types."""

Layers = tuple[Block, ...]
"""Blocks to stand one after another in a :func:`chain`."""


def chain(*blocks: Block) -> Block:
    """Blocks one after another; callables of ``(F, x)`` are wrapped."""
    result = nn.HybridSequential(prefix="")
    result.add(*map(as_block, blocks))
    return result


def as_block(part: Block | Callable[..., Any]) -> Block:
    """A block, or a block that calls a function of ``(F, x)``."""
    return part if isinstance(part, HybridBlock) else nn.HybridLambda(part)


def conv(channels: int, kernel: Any = 1, stride: Any = 1, pad: Any = 0, **more: Any) -> Block:
    """A convolution, with a bias unless told otherwise; ``more`` as in Gluon."""
    return nn.Conv2D(channels, kernel, stride, pad, **more)


def norm(epsilon: float = 1e-5) -> Block:
    """Batch normalization over the channels."""
    return nn.BatchNorm(epsilon=epsilon)


def relu() -> Block:
    """The table's ``Ramp``."""
    return nn.Activation("relu")


def conv_norm_relu(channels: int, kernel: int = 1, stride: int = 1, pad: int = 0) -> Layers:
    """A convolution, a normalization and an activation."""
    return conv(channels, kernel, stride, pad), norm(), relu()


def norm_relu_conv(channels: int, kernel: int = 1, stride: int = 1, pad: int = 0) -> Layers:
    """A convolution of what is first normalized and activated."""
    return norm(), relu(), conv(channels, kernel, stride, pad)


def softmax(axis: int = -1) -> Block:
    """Softmax over one axis, the last by default."""
    return nn.HybridLambda(lambda F, x: F.softmax(x, axis=axis))


def pixel_softmax() -> Layers:
    """The classes' probabilities of every pixel, the classes on the last axis."""
    return nn.HybridLambda(lambda F, x: F.transpose(x, axes=(0, 2, 3, 1))), softmax()


def doubled(F: Any, x: Any) -> Any:
    """Every pixel four times, for :func:`chain`."""
    return F.UpSampling(x, scale=2, sample_type="nearest")


def image_mean() -> Block:
    """The table's ``Aggregation(Mean)``: one number a channel, no axes left of the image."""
    return nn.HybridLambda(lambda F, x: F.mean(x, axis=(2, 3)))


def edge_pooling() -> Block:
    """Maxima of 3 x 3, every other one, after the last row and column came a second time.

    The authors' library so gives the size that Caffe has, which rounds up.
    """
    pad = nn.HybridLambda(lambda F, x: F.pad(x, mode="edge", pad_width=(0, 0, 0, 0, 0, 1, 0, 1)))
    return chain(pad, nn.MaxPool2D(3, 2))


def flatten_by_reshape() -> Block:
    """One axis of all but the batch, where the table reshapes instead of flattening."""
    return nn.HybridLambda(lambda F, x: F.reshape(x, (0, -1)))


def identity() -> Block:
    """A layer that changes nothing, but is run and counted.

    The authors' library runs its identity layers, where MXNet's ``identity`` is dropped
    when a graph is exported. Multiplying by one is what is left: it reads and writes every
    element too.
    """
    return nn.HybridLambda(lambda F, x: x * 1.0)


class Branches(HybridBlock):
    """Several branches from one input, and a function that joins them.

    Args:
        join: Function of ``F`` and the branches' results.
        branches: Blocks; ``None`` for the input itself.
    """

    def __init__(self, join: Callable[..., Any], *branches: Block | None) -> None:
        super().__init__(prefix="")
        self._join = join
        self._branches = branches
        for branch in branches:
            if branch is not None:
                self.register_child(branch)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Every branch in its order, then the join."""
        return self._join(F, *(x if b is None else b(x) for b in self._branches))


def total(*branches: Block | None) -> Block:
    """The branches' elementwise sum, one layer however many there are."""
    add = (lambda F, a, b: a + b) if len(branches) == 2 else (lambda F, *xs: F.add_n(*xs))
    return Branches(add, *branches)


def preactivated(activation: Block, body: Block, projection: Block | None = None) -> Block:
    """A residual unit that activates first; a projecting shortcut reads that as well."""
    if projection is None:
        return total(None, chain(activation, body))
    return chain(activation, total(projection, body))


def concat(*branches: Block | None) -> Block:
    """The branches' results, joined along the channels."""
    return Branches(lambda F, *xs: F.concat(*xs, dim=1), *branches)
