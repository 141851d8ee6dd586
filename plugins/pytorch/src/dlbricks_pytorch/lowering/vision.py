"""Sampling at computed positions, and detection."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import UNSUPPORTED, lowers

_IN_TORCHVISION = "torch itself has no such operator; torchvision, which has, is not used"
UNSUPPORTED.update(
    dict.fromkeys(("DeformConv", "MaxRoiPool", "NonMaxSuppression", "RoiAlign"), _IN_TORCHVISION)
)

_GRID_MODES = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest",
               "cubic": "bicubic", "bicubic": "bicubic"}  # fmt: skip


@lowers("GridSample")
def _grid_sample(ctx: LayerContext) -> Node:
    mode = _GRID_MODES[ctx.attribute("mode")]
    rank = ctx.rank(0)
    if rank not in (4, 5) or (rank == 5 and mode == "bicubic"):
        raise UnsupportedError(f"torch has no {mode} grid_sample over {rank - 2} axes")
    return ctx.call(
        F.grid_sample,
        ctx.input(0),
        ctx.input(1),
        mode=mode,
        padding_mode=ctx.attribute("padding_mode"),
        align_corners=bool(ctx.attribute("align_corners")),
    )


@lowers("AffineGrid")
def _affine_grid(ctx: LayerContext) -> Node:
    corners = bool(ctx.attribute("align_corners"))
    return ctx.call(F.affine_grid, ctx.input(0), list(ctx.integers(1)), align_corners=corners)
