"""Sampling at computed positions, and detection."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import UNSUPPORTED, lowering

_IN_TORCHVISION = "torch itself has no such operator; torchvision, which has, is not used"
UNSUPPORTED.update(
    dict.fromkeys(("DeformConv", "MaxRoiPool", "NonMaxSuppression", "RoiAlign"), _IN_TORCHVISION)
)

_GRID_MODES = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest",
               "cubic": "bicubic", "bicubic": "bicubic"}  # fmt: skip


@lowering("GridSample")
def _grid_sample(layer: LayerContext) -> Node:
    mode = _GRID_MODES[layer.attribute("mode", "linear")]
    rank = layer.rank(0)
    if rank not in (4, 5) or (rank == 5 and mode == "bicubic"):
        raise layer.unsupported(f"torch has no {mode} grid_sample over {rank - 2} axes")
    return layer.call(
        F.grid_sample,
        layer.input(0),
        layer.input(1),
        mode=mode,
        padding_mode=layer.attribute("padding_mode", "zeros"),
        align_corners=bool(layer.attribute("align_corners", 0)),
    )


@lowering("AffineGrid")
def _affine_grid(layer: LayerContext) -> Node:
    corners = bool(layer.attribute("align_corners", 0))
    return layer.call(F.affine_grid, layer.input(0), list(layer.integers(1)), align_corners=corners)
