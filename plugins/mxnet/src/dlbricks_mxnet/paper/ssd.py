"""The single-shot detector of Liu et al. (arXiv 1512.02325) on VGG-16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlbricks_mxnet.paper.blocks import Block, HybridBlock, Layers, chain, conv, nn, relu


@dataclass(frozen=True)
class _Layout:
    """Properties that depend on the size of the image.

    Attributes:
        boxes: Boxes at each place of each feature map, and the map's side.
        odd: Whether the third pooling and the first extra stage meet an odd size, which has
            a padding layer of its own there.
        extras: Kernel size, stride and padding of the extra stages from the third on.
    """

    boxes: tuple[tuple[int, int], ...]
    odd: bool
    extras: tuple[tuple[int, int, int], ...]


_LAYOUTS = {
    300: _Layout(
        boxes=((4, 38), (6, 19), (6, 10), (6, 5), (4, 3), (4, 1)),
        odd=True,
        extras=((3, 1, 0), (3, 1, 0)),
    ),
    512: _Layout(
        boxes=((4, 64), (6, 32), (6, 16), (6, 8), (6, 4), (4, 2), (4, 1)),
        odd=False,
        extras=((3, 2, 1), (3, 2, 1), (4, 1, 1)),
    ),
}


def ssd_vgg(*, size: int, classes: int) -> Block:
    """The probability of each class but the background, and the corners of each box.

    Args:
        size: Height and width of the image: 300 or 512.
        classes: Without the background.
    """
    return _Ssd(size, classes, _LAYOUTS[size])


class _Ssd(HybridBlock):
    def __init__(self, size: int, classes: int, layout: _Layout) -> None:
        super().__init__()
        self.stages = _stages(layout)
        self.rescale = _ChannelNorm(512, layout.boxes[0][1])
        boxes = [count for count, _ in layout.boxes]
        self.scores = _each(_scores(count, classes) for count in boxes)
        self.places = _each(_places(count) for count in boxes)
        self.corners = _Corners(size, sum(count * side**2 for count, side in layout.boxes))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        maps[0] = self.rescale(maps[0])
        scores = [head(x) for head, x in zip(self.scores, maps, strict=True)]
        places = [head(x) for head, x in zip(self.places, maps, strict=True)]
        return F.concat(*scores, dim=1), self.corners(F.concat(*places, dim=1))


def _each(blocks: Any) -> Block:
    """Blocks that are kept in order, but not called one after another."""
    result = nn.HybridSequential(prefix="")
    result.add(*blocks)
    return result


def _conv_relu(width: int, kernel: int, stride: int = 1, pad: int = 0) -> Layers:
    return conv(width, kernel, stride, pad), relu()


def _vgg(width: int, count: int) -> Layers:
    return tuple(part for _ in range(count) for part in _conv_relu(width, 3, 1, 1))


def _pad(*widths: int) -> Any:
    """Zeros at the top, the bottom, the left and the right."""
    return lambda F, x: F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, *widths))


def _stages(layout: _Layout) -> Block:
    """Layers before each feature map."""
    fourth = chain(
        *_vgg(64, 2),
        nn.MaxPool2D(2, 2),
        *_vgg(128, 2),
        nn.MaxPool2D(2, 2),
        *_vgg(256, 3),
        *((_pad(0, 1, 0, 1),) if layout.odd else ()),
        nn.MaxPool2D(2, 2),
        *_vgg(512, 3),
    )
    seventh = chain(
        nn.MaxPool2D(2, 2),
        *_vgg(512, 3),
        nn.MaxPool2D(3, 1, 1),
        conv(1024, 3, 1, 6, dilation=6),
        relu(),
        *_conv_relu(1024, 1),
    )
    eighth = chain(
        *_conv_relu(256, 1),
        *((_pad(1, 1, 1, 1), *_conv_relu(512, 3, 2)) if layout.odd else _conv_relu(512, 3, 2, 1)),
    )
    others = (
        chain(*_conv_relu(128, 1), *_conv_relu(256, *window))
        for window in ((3, 2, 1), *layout.extras)
    )
    return _each((fourth, seventh, eighth, *others))


def _scores(boxes: int, classes: int) -> Block:
    """For each box the probability of each class, without that of the background."""
    return chain(
        conv(boxes * (classes + 1), 3, 1, 1),
        lambda F, x: F.reshape(x, shape=(0, -4, boxes, classes + 1, 0, 0)),
        lambda F, x: F.softmax(x, axis=2),
        lambda F, x: F.slice_axis(x, axis=2, begin=1, end=classes + 1),
        *_listed(classes),
    )


def _places(boxes: int) -> Block:
    """For each box where it is, relative to the box expected there."""
    return chain(
        conv(boxes * 4, 3, 1, 1),
        lambda F, x: F.reshape(x, shape=(0, -4, boxes, 4, 0, 0)),
        *_listed(4),
    )


def _listed(columns: int) -> tuple[Any, ...]:
    """From boxes, columns, height and width to a list of boxes."""
    return (
        lambda F, x: F.transpose(x, axes=(0, 3, 4, 1, 2)),
        lambda F, x: F.reshape(x, shape=(0, -1, columns)),
    )


class _ChannelNorm(HybridBlock):
    """Scales each pixel to length one, by way of a softmax of logarithms, then by weights."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__()
        self.scale = self.params.get("scale", shape=(1, width, side, side))

    def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:
        x = F.transpose(x, axes=(0, 3, 2, 1))
        # A function of one layer in the table, three operators.
        logarithm = F.log(F.maximum(F.square(x), 1e-20))
        x = F.sqrt(F.softmax(logarithm, axis=-1))
        return F.broadcast_mul(F.transpose(x, axes=(0, 3, 2, 1)), scale)


class _Corners(HybridBlock):
    """Boxes relative to the expected ones, to pixels; the vertical axis points up."""

    def __init__(self, size: int, boxes: int) -> None:
        super().__init__()
        self._size = size
        for name in ("x_scale", "x_shift", "y_scale", "y_shift", "widths", "heights"):
            setattr(self, name, self.params.get(name, shape=(1, boxes, 1)))

    def hybrid_forward(
        self,
        F: Any,
        places: Any,
        x_scale: Any,
        x_shift: Any,
        y_scale: Any,
        y_shift: Any,
        widths: Any,
        heights: Any,
    ) -> Any:
        x, y, width, height = (
            # The last axis stays, of size one, where the table has none: to drop it would be
            # a layer more.
            F.slice_axis(places, axis=2, begin=i, end=i + 1)
            for i in range(4)
        )
        x = self._center(F, x, x_scale, x_shift) * self._size
        y = (1 - self._center(F, y, y_scale, y_shift)) * self._size
        width, height = self._length(F, width, widths), self._length(F, height, heights)
        corners = (x - width * 0.5, y - height * 0.5, x + width * 0.5, y + height * 0.5)
        flat = F.reshape(F.concat(*corners, dim=1), shape=(0, 4, -1))
        return F.reshape(F.transpose(flat, axes=(0, 2, 1)), shape=(0, 0, -4, 2, 2))

    def _center(self, F: Any, x: Any, scale: Any, shift: Any) -> Any:
        return F.broadcast_add(F.broadcast_mul(x, scale), shift)

    def _length(self, F: Any, x: Any, expected: Any) -> Any:
        return F.broadcast_mul(F.exp(x * 0.2), expected) * self._size
