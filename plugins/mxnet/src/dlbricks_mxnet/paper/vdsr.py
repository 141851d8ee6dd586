"""The very deep network for super-resolution of Kim et al. (arXiv 1511.04587)."""

from __future__ import annotations

from dlbricks_mxnet.paper.blocks import Block, chain, conv, relu


def vdsr(*, depth: int = 20, width: int = 64) -> Block:
    """Convolutions of one width on one channel of any size; what to add to it, pixels last.

    Args:
        depth: Number of convolutions.
        width: Channels between them.
    """
    middle = (part for _ in range(depth - 1) for part in (conv(width, 3, 1, 1), relu()))
    return chain(*middle, conv(1, 3, 1, 1), lambda F, x: F.transpose(x, axes=(0, 2, 3, 1)))
