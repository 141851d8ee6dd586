"""YOLO V2, the detector of Redmon and Farhadi (arXiv 1612.08242)."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from dlbricks_mxnet.paper.blocks import Block, HybridBlock, Layers, chain, conv, nn, norm


def yolo_v2(*, size: int = 416, classes: int = 80, anchors: int = 5) -> Block:
    """YOLO V2: position of each box, probability of an object in it, and of each class.

    Args:
        size: Height and width of the image; 32 must divide it.
        classes: Kinds of objects.
        anchors: Boxes at each place of the last feature map.
    """
    return _Yolo(size // 32, classes, anchors)


class _Yolo(HybridBlock):
    def __init__(self, side: int, classes: int, anchors: int) -> None:
        super().__init__()
        self._classes = classes
        self._anchors = anchors
        self.fine = chain(
            *_conv(32),
            *_stage(64),
            *_stage(128, 64, 128),
            *_stage(256, 128, 256),
            *_stage(512, 256, 512, 256, 512),
        )
        self.passthrough = chain(*_conv(64, 1), *_fold(2 * side))
        self.coarse = chain(*_stage(1024, 512, 1024, 512, 1024), *_conv(1024), *_conv(1024))
        self.head = chain(
            *_conv(1024),
            conv(anchors * (classes + 5)),
            lambda F, x: F.reshape(x, shape=(0, -4, anchors, classes + 5, 0, 0)),
            lambda F, x: F.transpose(x, axes=(0, 2, 1, 3, 4)),
        )
        self.boxes = _Boxes(side, anchors)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        fine = self.fine(x)
        joined = F.concat(self.passthrough(fine), self.coarse(fine), dim=1)
        region = self.head(joined)
        classes = F.softmax(_part(F, region, 5, 5 + self._classes), axis=1)
        # One row: the table takes it out with one layer, MXNet and ONNX with two.
        anything = F.flatten(F.sigmoid(F.squeeze(_part(F, region, 4, 5), axis=1)))
        centers = F.sigmoid(_part(F, region, 0, 2))
        places = F.concat(centers, _part(F, region, 2, 4), dim=1)
        return self.boxes(places), _listed(F, classes), anything


class _Boxes(HybridBlock):
    """Centers relative to a place of the map and sizes relative to an anchor, to the image's.

    The authors' library counts its arrays of constants as layers; in ONNX and MXNet they
    are weights.
    """

    def __init__(self, side: int, anchors: int) -> None:
        super().__init__()
        for name, rows in (("grid", 2), ("anchor_sizes", 2), ("scale", 4)):
            setattr(self, name, self.params.get(name, shape=(1, rows, anchors, side, side)))

    def hybrid_forward(self, F: Any, x: Any, grid: Any, anchor_sizes: Any, scale: Any) -> Any:
        centers = F.broadcast_add(_part(F, x, 0, 2), grid)
        sizes = F.broadcast_mul(F.exp(_part(F, x, 2, 4)), anchor_sizes)
        return _listed(F, F.broadcast_div(F.concat(centers, sizes, dim=1), scale))


def _conv(width: int, kernel: int = 3) -> Layers:
    return conv(width, kernel, 1, kernel // 2), norm(1e-6), nn.LeakyReLU(0.1)


def _stage(*widths: int) -> tuple[Any, ...]:
    """Halves the size, then convolutions of 3x3 and 1x1 in turn.

    The row and column of zeros change nothing; they are in the table.
    """
    convolutions = zip(widths, cycle((3, 1)), strict=False)
    return (
        lambda F, x: F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 0, 1, 0, 1)),
        nn.MaxPool2D(2, 2),
        *(part for width, kernel in convolutions for part in _conv(width, kernel)),
    )


def _fold(side: int) -> tuple[Any, ...]:
    """Four places of a map of that side become the channels of one."""
    return (
        lambda F, x: F.reshape(x, shape=(0, -1, 2, side, 2)),
        lambda F, x: F.transpose(x, axes=(0, 2, 4, 1, 3)),
        lambda F, x: F.reshape(x, shape=(0, -1, side // 2, side // 2)),
    )


def _part(F: Any, x: Any, begin: int, end: int) -> Any:
    return F.slice_axis(x, axis=1, begin=begin, end=end)


def _listed(F: Any, x: Any) -> Any:
    """From rows, anchors, height and width to a list of boxes."""
    return F.transpose(F.reshape(x, shape=(0, 0, -1)), axes=(0, 2, 1))
