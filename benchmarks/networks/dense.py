"""Networks with a result for each place of an image: segmentation, pose, detection."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Branches, Residual, basic, bottleneck, conv, image, inverted
from .registry import network


def enlarged(x: Tensor, scale: int = 2) -> Tensor:
    """A feature map that bilinear interpolation enlarges."""
    return F.interpolate(x, scale_factor=scale, mode="bilinear", align_corners=False)


class UNet(nn.Module):
    """A path down and a path up, with connections between them."""

    def __init__(self, inputs: int, classes: int, widths: list[int]) -> None:
        super().__init__()

        def double(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(conv(a, b), conv(b, b))

        self.down = nn.ModuleList(double(*each) for each in pairwise([inputs, *widths]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.join = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        seen: list[Tensor] = []
        for i, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if i else x)
            seen.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([seen[i], self.up[i](x)], 1))
        return self.head(x)


@network("segmentation")
def unet() -> tuple[nn.Module, Tensor]:
    """U-Net on a picture of one channel."""
    return UNet(1, 2, [24, 48, 96, 192, 384]), image(352, channels=1)


class UNet3d(nn.Module):
    """A small U-Net over a volume."""

    def __init__(self, widths: tuple[int, int, int]) -> None:
        super().__init__()
        a, b, c = widths

        def step(i: int, o: int, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv3d(i, o, 3, stride, 1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU()
            )

        self.first, self.second, self.third = step(1, a), step(a, b, 2), step(b, c, 2)
        self.up2, self.up1 = nn.ConvTranspose3d(c, b, 2, 2), nn.ConvTranspose3d(b, a, 2, 2)
        self.join2, self.join1 = step(2 * b, b), step(2 * a, a)
        self.head = nn.Conv3d(a, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(a)
        b = self.join2(torch.cat([b, self.up2(self.third(b))], 1))
        return self.head(self.join1(torch.cat([a, self.up1(b)], 1)))


@network("segmentation")
def volumes() -> tuple[nn.Module, Tensor]:
    """U-Net on a volume of medical images."""
    return UNet3d((16, 32, 64)), torch.randn(1, 1, 80, 80, 80)


class Pyramid(nn.Module):
    """A feature map with its means over grids of several sizes."""

    def __init__(self, width: int, sizes: tuple[int, ...] = (1, 2, 4, 8)) -> None:
        super().__init__()
        self.sizes = sizes
        self.reduce = nn.ModuleList(conv(width, width // 4, 1) for _ in sizes)

    def forward(self, x: Tensor) -> Tensor:
        means = [
            F.interpolate(layer(F.adaptive_avg_pool2d(x, size)), x.shape[2:], mode="bilinear")
            for layer, size in zip(self.reduce, self.sizes, strict=True)
        ]
        return torch.cat([x, *means], 1)


class TwoResolutions(nn.Module):
    """A shallow branch for details and a deep one for meaning, which are added."""

    def __init__(self, classes: int) -> None:
        super().__init__()

        def separable(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(conv(a, a, 3, 2, groups=a, activation=None), conv(a, b, 1))

        self.shared = nn.Sequential(conv(3, 32, 3, 2), separable(32, 48), separable(48, 64))
        deep = [inverted(64, 64, 2), inverted(64, 64), inverted(64, 96, 2), inverted(96, 96)]
        deep += [inverted(96, 128), inverted(128, 128), Pyramid(128), conv(256, 128, 1)]
        self.deep = nn.Sequential(*deep)
        self.wide = conv(64, 128, 1, activation=None)
        self.raised = nn.Sequential(
            conv(128, 128, 3, dilation=4, groups=128), conv(128, 128, 1, activation=None)
        )
        self.head = nn.Sequential(
            conv(128, 128, groups=128), conv(128, 128, 1), nn.Conv2d(128, classes, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        shared = self.shared(x)
        joined = F.relu(self.wide(shared) + self.raised(enlarged(self.deep(shared), 4)))
        return enlarged(self.head(joined), 8)


@network("segmentation")
def two_resolutions() -> tuple[nn.Module, Tensor]:
    """A shallow and a deep branch on a street's wide image."""
    return TwoResolutions(19), image(256, 512)


class ImageCascade(nn.Module):
    """An image in three sizes, of which the smallest is seen deepest."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.small = nn.Sequential(conv(3, 32, 3, 2), nn.MaxPool2d(3, 2, 1), basic(32, 64),
            basic(64, 128, 2), basic(128, 128, dilation=2), basic(128, 256, dilation=4),
            Pyramid(256, (1, 2, 3, 4)), conv(512, 128, 1))  # fmt: skip
        self.middle = nn.Sequential(conv(3, 32, 3, 2), nn.MaxPool2d(3, 2, 1), basic(32, 64, 2))
        self.large = nn.Sequential(conv(3, 32, 3, 2), conv(32, 32, 3, 2), conv(32, 64, 3, 2))
        self.joins = nn.ModuleList(
            nn.ModuleList([conv(a, 128, dilation=2, activation=None),
                           conv(64, 128, 1, activation=None)])
            for a in (128, 128)
        )  # fmt: skip
        self.head = nn.Conv2d(128, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        half = F.interpolate(x, scale_factor=0.5, mode="bilinear")
        quarter = F.interpolate(x, scale_factor=0.25, mode="bilinear")
        found = self.small(quarter)
        for (deep, fine), other in zip(
            self.joins, (self.middle(half), self.large(x)), strict=True
        ):  # fmt: skip
            size = other.shape[2:]
            raised = F.interpolate(found, size, mode="bilinear")
            found = F.relu(deep(raised) + fine(other))
        return enlarged(self.head(found), 4)


@network("segmentation")
def image_cascade() -> tuple[nn.Module, Tensor]:
    """Three branches for three sizes of an image."""
    return ImageCascade(19), image(384, 384)


class AtrousPyramid(nn.Module):
    """A deep feature map seen with several dilations, joined with a shallow one."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.low = nn.Sequential(conv(3, 32, 3, 2), nn.MaxPool2d(3, 2, 1), basic(32, 64))
        self.high = nn.Sequential(basic(64, 128, 2), basic(128, 256, 2), basic(256, 256))
        self.pyramid = Branches(conv(256, 96, 1), *(conv(256, 96, dilation=d) for d in (6, 12, 18)))
        self.project, self.narrow = conv(384, 96, 1), conv(64, 32, 1)
        self.head = nn.Sequential(conv(128, 96), nn.Conv2d(96, classes, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        high = enlarged(self.project(self.pyramid(self.high(low))), 4)
        return enlarged(self.head(torch.cat([high, self.narrow(low)], 1)), 4)


@network("segmentation")
def atrous_pyramid() -> tuple[nn.Module, Tensor]:
    """A pyramid of dilated convolutions, and a decoder."""
    return AtrousPyramid(21), image(256)


class Hourglass(nn.Module):
    """Residual blocks down to a small feature map and up again, nested."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        block = bottleneck(width, width // 2, width)
        self.skip, self.down = block, bottleneck(width, width // 2, width)
        self.inner = Hourglass(depth - 1, width) if depth > 1 else bottleneck(
            width, width // 2, width
        )  # fmt: skip
        self.up = bottleneck(width, width // 2, width)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.up(self.inner(self.down(F.max_pool2d(x, 2))))
        return self.skip(x) + F.interpolate(inner, scale_factor=2, mode="nearest")


class Stacked(nn.Module):
    """Hourglasses, each of which sees the heat maps of the one before it."""

    def __init__(self, count: int, width: int, joints: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv(3, 32, 7, 2), bottleneck(32, 32, 64), nn.MaxPool2d(2), bottleneck(64, 64, width)
        )
        self.glasses = nn.ModuleList(Hourglass(4, width) for _ in range(count))
        self.features = nn.ModuleList(conv(width, width, 1) for _ in range(count))
        self.maps = nn.ModuleList(nn.Conv2d(width, joints, 1) for _ in range(count))
        self.back = nn.ModuleList(nn.Conv2d(joints, width, 1) for _ in range(count - 1))

    def forward(self, x: Tensor) -> list[Tensor]:
        x, found = self.stem(x), []
        for i, glass in enumerate(self.glasses):
            features = self.features[i](glass(x))
            found.append(self.maps[i](features))
            if i < len(self.back):
                x = x + features + self.back[i](found[-1])
        return found


@network("pose")
def stacked_hourglass() -> tuple[nn.Module, Tensor]:
    """Two stacked hourglasses for the joints of a body."""
    return Stacked(2, 128, 16), image(256)


@network("pose")
def heat_maps() -> tuple[nn.Module, Tensor]:
    """A residual network and transposed convolutions for heat maps."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), basic(64, 64)]
    layers += [basic(64, 128, 2), basic(128, 256, 2), basic(256, 512, 2)]
    for width in (512, 128, 128):
        layers += [nn.ConvTranspose2d(width, 128, 4, 2, 1, bias=False), nn.BatchNorm2d(128)]
        layers.append(nn.ReLU())
    return nn.Sequential(*layers, nn.Conv2d(128, 17, 1)), image(256, 192)


class Resolutions(nn.Module):
    """Parallel branches of several resolutions that exchange their results."""

    def __init__(self, width: int, exchanges: int, joints: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 64, 3, 2), conv(64, width, 3, 2))
        self.lower = conv(width, 2 * width, 3, 2)
        self.lowest = conv(2 * width, 4 * width, 3, 2)
        self.stages = nn.ModuleList(
            nn.ModuleList([
                *(nn.Sequential(basic(w, w), basic(w, w)) for w in (width, 2 * width, 4 * width)),
                conv(2 * width, width, 1, activation=None),
                conv(4 * width, width, 1, activation=None),
                conv(width, 2 * width, 3, 2, activation=None),
                conv(4 * width, 2 * width, 1, activation=None),
                conv(2 * width, 4 * width, 3, 2, activation=None),
            ])
            for _ in range(exchanges)
        )  # fmt: skip
        self.head = nn.Conv2d(width, joints, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.stem(x)
        b = self.lower(a)
        c = self.lowest(b)
        for first, second, third, ba, ca, ab, cb, bc in self.stages:
            a, b, c = first(a), second(b), third(c)
            a, b, c = (
                F.relu(a + enlarged(ba(b)) + enlarged(ca(c), 4)),
                F.relu(ab(a) + b + enlarged(cb(c))),
                F.relu(bc(b) + c),
            )
        return self.head(a)


@network("pose")
def parallel_resolutions() -> tuple[nn.Module, Tensor]:
    """Three resolutions that exchange their results."""
    return Resolutions(24, 3, 17), image(224, 160)


class FeaturePyramid(nn.Module):
    """Heads for classes and boxes that several sizes of a feature map share."""

    def __init__(self, classes: int, anchors: int, width: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList([
            nn.Sequential(conv(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1), basic(32, 64)),
            basic(64, 128, 2),
            basic(128, 256, 2),
            basic(256, 512, 2),
        ])  # fmt: skip
        self.lateral = nn.ModuleList(nn.Conv2d(w, width, 1) for w in (128, 256, 512))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))

        def head(outputs: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            for _ in range(2):
                layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
            return nn.Sequential(*layers, nn.Conv2d(width, outputs, 3, padding=1))

        self.classes, self.boxes = head(anchors * classes), head(anchors * 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = []
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        maps = [layer(x) for layer, x in zip(self.lateral, seen[1:], strict=True)]
        for i in (1, 0):
            maps[i] = maps[i] + F.interpolate(maps[i + 1], scale_factor=2, mode="nearest")
        maps = [layer(x) for layer, x in zip(self.smooth, maps, strict=True)]
        classes = torch.cat([self.classes(x).flatten(2) for x in maps], 2)
        return classes.sigmoid(), torch.cat([self.boxes(x).flatten(2) for x in maps], 2)


@network("detection")
def feature_pyramid() -> tuple[nn.Module, Tensor]:
    """A feature pyramid whose levels share two heads."""
    return FeaturePyramid(20, 6, 96), image(512)


class CrossStage(nn.Module):
    """Half of the channels through residual blocks, joined with the others."""

    def __init__(self, inputs: int, outputs: int, count: int, shortcut: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.left = conv(inputs, half, 1, activation=nn.SiLU)
        self.right = conv(inputs, half, 1, activation=nn.SiLU)
        body = [
            nn.Sequential(
                conv(half, half, 1, activation=nn.SiLU), conv(half, half, activation=nn.SiLU)
            )
            for _ in range(count)
        ]
        self.body = nn.Sequential(*(Residual(each) if shortcut else each for each in body))
        self.join = conv(outputs, outputs, 1, activation=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([self.body(self.left(x)), self.right(x)], 1))


class PoolingPyramid(nn.Module):
    """A feature map with its maxima over growing windows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce = conv(width, width // 2, 1, activation=nn.SiLU)
        self.join = conv(2 * width, width, 1, activation=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.reduce(x)]
        for _ in range(3):
            found.append(F.max_pool2d(found[-1], 5, 1, 2))
        return self.join(torch.cat(found, 1))


class OneStage(nn.Module):
    """A detector of one stage: backbone, paths up and down, and three heads."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        w = width

        def step(a: int, b: int) -> nn.Sequential:
            return conv(a, b, 3, 2, activation=nn.SiLU)

        self.third = nn.Sequential(
            conv(3, w, 6, 2, activation=nn.SiLU), step(w, 2 * w), CrossStage(2 * w, 2 * w, 1),
            step(2 * w, 4 * w), CrossStage(4 * w, 4 * w, 2),
        )  # fmt: skip
        self.fourth = nn.Sequential(step(4 * w, 8 * w), CrossStage(8 * w, 8 * w, 3))
        self.fifth = nn.Sequential(
            step(8 * w, 16 * w), CrossStage(16 * w, 16 * w, 1), PoolingPyramid(16 * w),
            conv(16 * w, 8 * w, 1, activation=nn.SiLU),
        )  # fmt: skip
        self.up4 = nn.Sequential(
            CrossStage(16 * w, 8 * w, 1, False), conv(8 * w, 4 * w, 1, activation=nn.SiLU)
        )
        self.up3 = CrossStage(8 * w, 4 * w, 1, False)
        self.down4, self.down5 = step(4 * w, 4 * w), step(8 * w, 8 * w)
        self.out4 = CrossStage(8 * w, 8 * w, 1, False)
        self.out5 = CrossStage(16 * w, 16 * w, 1, False)
        self.heads = nn.ModuleList(nn.Conv2d(k * w, outputs, 1) for k in (4, 8, 16))

    def forward(self, x: Tensor) -> Tensor:
        third = self.third(x)
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        up4 = self.up4(torch.cat([F.interpolate(fifth, scale_factor=2.0), fourth], 1))
        up3 = self.up3(torch.cat([F.interpolate(up4, scale_factor=2.0), third], 1))
        out4 = self.out4(torch.cat([self.down4(up3), up4], 1))
        out5 = self.out5(torch.cat([self.down5(out4), fifth], 1))
        maps = (up3, out4, out5)
        return torch.cat([h(x).flatten(2) for h, x in zip(self.heads, maps, strict=True)], 2)


@network("detection")
def one_stage() -> tuple[nn.Module, Tensor]:
    """A detector of one stage with cross-stage connections."""
    return OneStage(16, 3 * 85), image(320)
