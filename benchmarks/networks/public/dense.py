"""Networks for segmentation, detection, pose, restoration and generation of images."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..dense import (
    CrossStage,
    FeaturePyramid,
    ImageCascade,
    OneStage,
    PoolingPyramid,
    Pyramid,
    Resolutions,
    Stacked,
    TwoResolutions,
    UNet,
    enlarged,
)
from ..generative import Diffusion, DiffusionTransformer, StyleGenerator
from ..layers import (
    Attention,
    Block,
    Branches,
    LayerNorm2d,
    Patches,
    Positions,
    Residual,
    basic,
    bottleneck,
    classifier,
    conv,
    image,
    inverted,
    mlp,
)
from ..vision import Windows
from .registry import published

Built = tuple[nn.Module, *tuple[Tensor, ...]]


def residual(counts: Sequence[int], dilated: int = 4, block: str = "bottleneck") -> nn.Sequential:
    """Four stages of residual blocks, of which the last may dilate instead of striding."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for i, count in enumerate(counts):
        width = 64 * 2**i
        for j in range(count):
            stride = 2 if i and j == 0 and i < dilated else 1
            if block == "basic":
                layers.append(basic(inputs, width, stride, 2 if i >= dilated else 1))
                inputs = width
            else:
                layers.append(bottleneck(inputs, width, 4 * width, stride))
                inputs = 4 * width
    return nn.Sequential(*layers)


class Enlarged(nn.Module):
    """A feature map enlarged by interpolation."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return enlarged(x, self.scale)


def fcn() -> Built:
    """VGG's convolutions, scores, and a large transposed convolution."""
    layers: list[nn.Module] = []
    width = 3
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(width, channels, 3, padding=1), nn.ReLU()]
            width = channels
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Conv2d(512, 1024, 3, padding=1), nn.ReLU(), nn.Conv2d(1024, 21, 1)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(21, 21, 64, 32, 16, bias=False)), image(192)


class SegNet(nn.Module):
    """An encoder and a decoder of the same form, with upsampling between the stages."""

    def __init__(self, widths: Sequence[int], classes: int) -> None:
        super().__init__()
        down = [nn.Sequential(conv(a, b), conv(b, b), nn.MaxPool2d(2))
                for a, b in pairwise([3, *widths])]  # fmt: skip
        up = [nn.Sequential(nn.Upsample(scale_factor=2), conv(b, b), conv(b, a))
              for a, b in reversed([*pairwise([widths[0], *widths])])]  # fmt: skip
        self.body = nn.Sequential(*down, *up, nn.Conv2d(widths[0], classes, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def enet() -> Built:
    """Narrow bottlenecks with asymmetric and dilated convolutions."""

    def block(width: int, middle: nn.Module) -> Residual:
        inner = width // 4
        return Residual(conv(width, inner, 1, activation=nn.PReLU), middle,
                        conv(inner, width, 1, activation=None), after=nn.PReLU())  # fmt: skip

    layers: list[nn.Module] = [Branches(conv(3, 13, 3, 2), nn.MaxPool2d(2))]
    layers += [
        conv(16, 64, 3, 2),
        *(block(64, conv(16, 16)) for _ in range(4)),
        conv(64, 128, 3, 2),
    ]
    for _ in range(2):
        for dilation in (2, 4, 8, 16):
            layers.append(block(128, conv(32, 32)))
            layers.append(block(128, conv(32, 32, dilation=dilation)))
            asymmetric = nn.Sequential(conv(32, 32, (5, 1)), conv(32, 32, (1, 5)))
            layers.append(block(128, asymmetric))
    for a, b in ((128, 64), (64, 16)):
        layers += [nn.ConvTranspose2d(a, b, 2, 2), nn.BatchNorm2d(b), nn.PReLU()]
        layers.append(block(b, conv(b // 4, b // 4)))
    return nn.Sequential(*layers, nn.ConvTranspose2d(16, 19, 2, 2)), image(256, 512)


def erfnet() -> Built:
    """Residual blocks of convolutions factored into rows and columns."""

    def block(width: int, dilation: int) -> Residual:
        return Residual(
            nn.Conv2d(width, width, (3, 1), padding=(1, 0)), nn.ReLU(), conv(width, width, (1, 3)),
            nn.Conv2d(width, width, (3, 1), padding=(dilation, 0), dilation=(dilation, 1)),
            nn.ReLU(), conv(width, width, (1, 3), dilation=dilation), after=nn.ReLU(),
        )  # fmt: skip

    layers: list[nn.Module] = [conv(3, 16, 3, 2), conv(16, 64, 3, 2)]
    layers += [block(64, 1) for _ in range(5)] + [conv(64, 128, 3, 2)]
    layers += [block(128, d) for d in (2, 4, 8, 16) * 2]
    layers += [nn.ConvTranspose2d(128, 64, 2, 2), block(64, 1), nn.ConvTranspose2d(64, 16, 2, 2)]
    return nn.Sequential(*layers, block(16, 1), nn.ConvTranspose2d(16, 19, 2, 2)), image(256, 512)


def pspnet() -> Built:
    """A residual network, and means over grids of several sizes."""
    head = [Pyramid(2048, (1, 2, 3, 6)), conv(4096, 512), nn.Conv2d(512, 21, 1), Enlarged(16)]
    return nn.Sequential(residual((3, 4, 6, 3), 3), *head), image(192)


def deeplab_v3() -> Built:
    """A residual network, and convolutions of several dilations."""
    branches = Branches(conv(2048, 256, 1), *(conv(2048, 256, dilation=d) for d in (6, 12, 18)))
    head = [conv(1024, 256, 1), conv(256, 256), nn.Conv2d(256, 21, 1), Enlarged(16)]
    return nn.Sequential(residual((3, 4, 6, 3), 3), branches, *head), image(192)


class DeepLabPlus(nn.Module):
    """Inverted residual blocks, dilated convolutions, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(conv(3, 32, 3, 2), inverted(32, 16, 1, 1), inverted(16, 24, 2))
        self.high = nn.Sequential(
            inverted(24, 32, 2), inverted(32, 32), inverted(32, 64, 2), inverted(64, 64),
            inverted(64, 96), inverted(96, 160), inverted(160, 320),
        )  # fmt: skip
        dilations = [nn.Sequential(conv(320, 320, dilation=d, groups=320), conv(320, 256, 1))
                     for d in (6, 12, 18)]  # fmt: skip
        self.pyramid = nn.Sequential(Branches(conv(320, 256, 1), *dilations), conv(1024, 256, 1))
        self.narrow = conv(24, 48, 1)
        self.head = nn.Sequential(conv(304, 304, groups=304), conv(304, 256, 1),
                                  nn.Conv2d(256, 21, 1))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        high = enlarged(self.pyramid(self.high(low)), 4)
        return enlarged(self.head(torch.cat([high, self.narrow(low)], 1)), 4)


class NestedUNet(nn.Module):
    """A U-Net whose connections are chains of convolutions themselves."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()

        def double(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(conv(a, b), conv(b, b))

        depth = len(widths)
        self.down = nn.ModuleList(double(a, b) for a, b in pairwise([3, *widths]))
        self.join = nn.ModuleList(
            nn.ModuleList(
                double(widths[i] * j + widths[i + 1], widths[i]) for i in range(depth - j)
            )
            for j in range(1, depth)
        )
        self.head = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        seen: list[list[Tensor]] = []
        for i, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if i else x)
            seen.append([x])
        for layers in self.join:
            for i, layer in enumerate(layers):
                seen[i].append(layer(torch.cat([*seen[i], enlarged(seen[i + 1][-1])], 1)))
        return self.head(seen[0][-1])


def tiny_yolo() -> Built:
    """Convolutions and pooling down to a grid of boxes."""
    layers: list[nn.Module] = []
    width = 3
    for channels in (16, 32, 64, 128, 256, 512):
        layers += [conv(width, channels, activation=lambda: nn.LeakyReLU(0.1)), nn.MaxPool2d(2)]
        width = channels
    layers += [conv(512, 1024, activation=lambda: nn.LeakyReLU(0.1)), nn.Conv2d(1024, 125, 1)]
    return nn.Sequential(*layers), image(416)


class Shots(nn.Module):
    """VGG's convolutions and further ones, with heads for boxes on six sizes."""

    def __init__(self, classes: int) -> None:
        super().__init__()

        def stage(a: int, b: int, count: int) -> list[nn.Module]:
            layers: list[nn.Module] = []
            for i in range(count):
                layers += [nn.Conv2d(b if i else a, b, 3, padding=1), nn.ReLU()]
            return layers

        pool = nn.MaxPool2d(2, ceil_mode=True)
        first = [*stage(3, 64, 2), pool, *stage(64, 128, 2), pool, *stage(128, 256, 3), pool]
        second = [pool, *stage(512, 512, 3), nn.Conv2d(512, 1024, 3, padding=6, dilation=6)]
        second += [nn.ReLU(), nn.Conv2d(1024, 1024, 1), nn.ReLU()]

        def further(a: int, b: int, stride: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(a, b // 2, 1), nn.ReLU(),
                                 nn.Conv2d(b // 2, b, 3, stride, stride - 1),
                                 nn.ReLU())  # fmt: skip

        self.stages = nn.ModuleList([
            nn.Sequential(*first, *stage(256, 512, 3)), nn.Sequential(*second),
            further(1024, 512, 2), further(512, 256, 2), further(256, 256, 1),
            further(256, 256, 1),
        ])  # fmt: skip
        plan = zip((512, 1024, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4), strict=True)
        self.heads = nn.ModuleList(
            nn.Conv2d(width, boxes * (classes + 4), 3, padding=1) for width, boxes in plan
        )

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            found.append(head(x).flatten(1))
        return torch.cat(found, 1)


class Centers(nn.Module):
    """A residual network, transposed convolutions, and heads for centers and sizes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [residual((2, 2, 2, 2), block="basic")]
        for a, b in ((512, 256), (256, 128), (128, 64)):
            layers += [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, n, 1))
            for n in (80, 2, 2)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.body(x)
        centers, sizes, offsets = (head(x) for head in self.heads)
        return centers.sigmoid(), sizes, offsets


class Queries(nn.Module):
    """A residual network and a transformer that turns queries into boxes."""

    def __init__(self, width: int, heads: int, depth: int, queries: int, places: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(residual((3, 4, 6, 3)), nn.Conv2d(2048, width, 1))
        self.positions = Positions(places, width)
        self.encoder = nn.Sequential(
            *(Block(width, heads, 2048, before=False, activation=nn.ReLU) for _ in range(depth))
        )
        self.queries = nn.Parameter(torch.randn(1, queries, width) * 0.02)
        self.own = nn.ModuleList(Attention(width, heads) for _ in range(depth))
        self.cross = nn.ModuleList(Attention(width, heads) for _ in range(depth))
        self.forth = nn.ModuleList(mlp(width, 2048, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 * depth))
        self.classes, self.boxes = nn.Linear(width, 92), mlp(width, width, width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.encoder(self.positions(self.backbone(x).flatten(2).transpose(1, 2)))
        y = self.queries
        for i, (own, cross, forth) in enumerate(zip(self.own, self.cross, self.forth, strict=True)):
            y = self.norms[3 * i](y + own(y))
            y = self.norms[3 * i + 1](y + cross(y, seen))
            y = self.norms[3 * i + 2](y + forth(y))
        return self.classes(y), self.boxes(y).sigmoid()


def yolos() -> Built:
    """A plain transformer with a hundred tokens that become boxes."""

    class Tokens(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.tokens = nn.Parameter(torch.randn(1, 100, width) * 0.02)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, self.tokens], 1)

    blocks = [Block(192, 3) for _ in range(12)]
    head = mlp(192, 192, 192, 96)
    return nn.Sequential(
        Patches(256, 16, 192), Tokens(192), *blocks, nn.LayerNorm(192), head
    ), image(256)  # fmt: skip


def cross_stage(width: int, counts: Sequence[int]) -> Built:
    """A backbone of cross-stage blocks."""
    layers: list[nn.Module] = [conv(3, width, 3, 2, activation=nn.Mish)]
    inputs = width
    for count in counts:
        layers += [conv(inputs, 2 * inputs, 3, 2, activation=nn.Mish)]
        inputs *= 2
        layers.append(CrossStage(inputs, inputs, count))
    return nn.Sequential(*layers, PoolingPyramid(inputs), classifier(inputs)), image(256)


class Open(nn.Module):
    """VGG's first layers, and stages that refine heat maps and fields between joints."""

    def __init__(self, stages: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for channels, count in ((64, 2), (128, 2), (256, 4), (512, 2)):
            for _ in range(count):
                layers += [nn.Conv2d(width, channels, 3, padding=1), nn.ReLU()]
                width = channels
            layers += [nn.MaxPool2d(2)] if channels < 512 else []
        self.features = nn.Sequential(*layers, nn.Conv2d(512, 128, 3, padding=1), nn.ReLU())

        def branch(inputs: int, outputs: int, kernel: int, count: int) -> nn.Sequential:
            body: list[nn.Module] = []
            for _ in range(count):
                body += [nn.Conv2d(inputs, 128, kernel, padding=kernel // 2), nn.ReLU()]
                inputs = 128
            return nn.Sequential(*body, nn.Conv2d(128, outputs, 1))

        kinds = [(128, 3, 3)] + [(128 + 57, 7, 4)] * (stages - 1)
        self.maps = nn.ModuleList(branch(i, 19, k, n) for i, k, n in kinds)
        self.fields = nn.ModuleList(branch(i, 38, k, n) for i, k, n in kinds)

    def forward(self, x: Tensor) -> Tensor:
        features = self.features(x)
        y = features
        for maps, fields in zip(self.maps, self.fields, strict=True):
            found = torch.cat([maps(y), fields(y)], 1)
            y = torch.cat([features, found], 1)
        return found


def pose_baseline() -> Built:
    """A residual network and three transposed convolutions."""
    layers: list[nn.Module] = [residual((3, 4, 6, 3))]
    for width in (2048, 256, 256):
        layers += [nn.ConvTranspose2d(width, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256)]
        layers.append(nn.ReLU())
    return nn.Sequential(*layers, nn.Conv2d(256, 17, 1)), image(256, 192)


def chain(kernels: Sequence[int], widths: Sequence[int], scale: int, size: int) -> Built:
    """Convolutions with ReLU, and pixels from channels where the scale is above one."""
    layers: list[nn.Module] = []
    for kernel, (a, b) in zip(kernels, pairwise(widths), strict=True):
        layers += [nn.Conv2d(a, b, kernel, padding=kernel // 2), nn.ReLU()]
    layers = layers[:-1] + ([nn.PixelShuffle(scale)] if scale > 1 else [])
    return nn.Sequential(*layers), image(size, channels=1)


def super_resolution(width: int, count: int, normalized: bool, size: int) -> Built:
    """Residual blocks, then pixels from channels twice."""

    def block() -> Residual:
        norm = [nn.BatchNorm2d(width)] if normalized else []
        return Residual(nn.Conv2d(width, width, 3, padding=1), *norm, nn.ReLU(),
                        nn.Conv2d(width, width, 3, padding=1), *norm)  # fmt: skip

    body = Residual(*(block() for _ in range(count)), nn.Conv2d(width, width, 3, padding=1))
    up: list[nn.Module] = []
    for _ in range(2):
        up += [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2)]
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), body, *up, nn.Conv2d(width, 3, 3, padding=1)
    ), image(size)


class Dense5(nn.Module):
    """Five convolutions that see the results of all before them, added in part."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(width + i * growth, growth if i < 4 else width, 3, padding=1)
            for i in range(5)
        )

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(F.leaky_relu(layer(torch.cat(found, 1)), 0.2))
        return x + 0.2 * found[-1]


def esrgan() -> Built:
    """Residual dense blocks for four times as many pixels."""
    blocks = [Dense5(64, 32) for _ in range(9)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), Residual(*blocks), nn.Upsample(scale_factor=2),
        nn.Conv2d(64, 64, 3, padding=1), nn.LeakyReLU(0.2), nn.Upsample(scale_factor=2),
        nn.Conv2d(64, 64, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(64, 3, 3, padding=1),
    ), image(48)  # fmt: skip


def swinir() -> Built:
    """Windowed attention on full resolution, for more pixels."""

    class Grid(nn.Module):
        def __init__(self, body: nn.Module) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def block(shift: int) -> nn.Module:
        return nn.Sequential(
            Residual(nn.LayerNorm(60), Windows(60, 6, 64, 8, shift)),
            Residual(nn.LayerNorm(60), mlp(60, 120, 60, activation=nn.GELU)),
        )

    groups = [
        Residual(Grid(nn.Sequential(*(block(4 * (j % 2)) for j in range(6)))),
                 nn.Conv2d(60, 60, 3, padding=1))
        for _ in range(2)
    ]  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(3, 60, 3, padding=1), Residual(*groups), nn.Conv2d(60, 12, 3, padding=1),
        nn.PixelShuffle(2),
    ), image(64)  # fmt: skip


class SimpleGate(nn.Module):
    """The product of both halves of the channels."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, 1)
        return first * second


class ChannelGate(nn.Module):
    """Channels scaled by a projection of their means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weights = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weights(x)


def nafnet() -> Built:
    """Blocks without activations, for the restoration of images."""

    def block(width: int) -> nn.Sequential:
        first = [LayerNorm2d(width), nn.Conv2d(width, 2 * width, 1)]
        first += [nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width), SimpleGate()]
        first += [ChannelGate(width), nn.Conv2d(width, width, 1)]
        second = [LayerNorm2d(width), nn.Conv2d(width, 2 * width, 1), SimpleGate()]
        return nn.Sequential(Residual(*first), Residual(*second, nn.Conv2d(width, width, 1)))

    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1)]
    for width, count in ((32, 1), (64, 1), (128, 4)):
        layers += [*(block(width) for _ in range(count)), nn.Conv2d(width, 2 * width, 2, 2)]
    layers.append(block(256))
    for width in (128, 64, 32):
        layers += [nn.Conv2d(2 * width, 4 * width, 1), nn.PixelShuffle(2), block(width)]
    return nn.Sequential(*layers, nn.Conv2d(32, 3, 3, padding=1)), image(128)


def translation(size: int, count: int, width: int = 64) -> Built:
    """An image in another style, by residual blocks with instance normalization."""

    def step(a: int, b: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(a, b, kernel, stride, kernel // 2), nn.InstanceNorm2d(b), nn.ReLU()]

    layers = [*step(3, width, 9), *step(width, 2 * width, 3, 2)]
    layers += step(2 * width, 4 * width, 3, 2)
    layers += [Residual(*step(4 * width, 4 * width, 3), *step(4 * width, 4 * width, 3)[:-1])
               for _ in range(count)]  # fmt: skip
    for w in (2 * width, width):
        layers += [nn.ConvTranspose2d(2 * w, w, 3, 2, 1, 1), nn.InstanceNorm2d(w), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(width, 3, 9, padding=4), nn.Tanh()), image(size)


def unet_generator() -> Built:
    """A U-Net that turns an image into another."""
    return UNet(3, 3, [64, 128, 256, 512]), image(128)


def dcgan() -> Built:
    """Transposed convolutions from noise to an image."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 1024, 4, bias=False)]
    for a, b in pairwise((1024, 512, 256, 128)):
        layers += [nn.BatchNorm2d(a), nn.ReLU(), nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False)]
    layers += [nn.BatchNorm2d(128), nn.ReLU(), nn.ConvTranspose2d(128, 3, 4, 2, 1), nn.Tanh()]
    return nn.Sequential(*layers), torch.randn(1, 100, 1, 1)


class Quantized(nn.Module):
    """The nearest of some codes for each place of a feature map."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.codes = nn.Embedding(codes, width)

    def forward(self, x: Tensor) -> Tensor:
        places = x.permute(0, 2, 3, 1)
        table = self.codes.weight
        distances = table.square().sum(1) - 2 * places @ table.t()
        return self.codes(distances.argmin(-1)).permute(0, 3, 1, 2)


def vqvae() -> Built:
    """An image through the nearest of 512 codes."""

    def block() -> Residual:
        return Residual(nn.ReLU(), nn.Conv2d(128, 32, 3, padding=1), nn.ReLU(),
                        nn.Conv2d(32, 128, 1))  # fmt: skip

    return nn.Sequential(
        nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 4, 2, 1), block(), block(),
        nn.Conv2d(128, 64, 1), Quantized(512, 64), nn.Conv2d(64, 128, 3, padding=1), block(),
        block(), nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(64, 3, 4, 2, 1),
    ), image(128)  # fmt: skip


def with_inputs(build: type[nn.Module], arguments: tuple[object, ...], *shape: int) -> Built:
    """A network of a class, and a random input of some shape."""
    return build(*arguments), torch.randn(*shape)


def diffusion(width: int, size: int) -> Built:
    """A step of diffusion on a latent image, told a text."""
    step, text = torch.tensor([500.0]), torch.randn(1, 77, 256)
    return Diffusion(width), torch.randn(1, 4, size, size), step, text


def diffusion_transformer() -> Built:
    """A step of diffusion by a transformer."""
    return DiffusionTransformer(32, 384, 6, 12), torch.randn(1, 4, 32, 32), torch.randn(1, 384)


_IMAGE = (1, 3)

# fmt: off
published("variational", "2013-12", "Kingma and Welling, Auto-encoding variational Bayes",
          lambda: (mlp(784, 500, 20, 500, 784, activation=nn.Tanh), torch.randn(64, 784)))
published("fcn32", "2014-11", "Long et al., Fully convolutional networks", fcn)
published("srcnn", "2014-12", "Dong et al., Image super-resolution", chain, (9, 5, 5),
          (1, 64, 32, 1), 1, 192)
published("unet", "2015-05", "Ronneberger et al., U-Net", with_inputs, UNet,
          (1, 2, [32, 64, 128, 256, 512]), 1, 1, 256, 256)
published("segnet", "2015-11", "Badrinarayanan et al., SegNet", with_inputs, SegNet,
          ([64, 128, 256, 512], 12), *_IMAGE, 192, 256)
published("vdsr", "2015-11", "Kim et al., Very deep super-resolution", chain, (3,) * 20,
          (1, *(64,) * 19, 1), 1, 96)
published("dcgan", "2015-11", "Radford et al., Deep convolutional adversarial networks", dcgan)
published("ssd300", "2015-12", "Liu et al., Single shot detector", with_inputs, Shots, (21,),
          *_IMAGE, 300, 300)
published("fast_style", "2016-03", "Johnson et al., Perceptual losses", translation, 192, 5, 32)
published("stacked_hourglass", "2016-03", "Newell et al., Stacked hourglass networks", with_inputs,
          Stacked, (2, 256, 16), *_IMAGE, 256, 256)
published("enet", "2016-06", "Paszke et al., ENet", enet)
published("espcn", "2016-09", "Shi et al., Sub-pixel convolution", chain, (5, 3, 3),
          (1, 64, 32, 9), 3, 240)
published("srresnet", "2016-09", "Ledig et al., Photo-realistic super-resolution",
          super_resolution, 64, 16, True, 48)
published("pix2pix", "2016-11", "Isola et al., Image-to-image translation", unet_generator)
published("openpose", "2016-11", "Cao et al., Part affinity fields", with_inputs, Open, (3,),
          *_IMAGE, 184, 184)
published("feature_pyramid", "2016-12", "Lin et al., Feature pyramid networks", with_inputs,
          FeaturePyramid, (80, 3, 128), *_IMAGE, 256, 256)
published("pspnet", "2016-12", "Zhao et al., Pyramid scene parsing", pspnet)
published("tiny_yolo_v2", "2016-12", "Redmon and Farhadi, YOLO9000", tiny_yolo)
published("cyclegan", "2017-03", "Zhu et al., Cycle-consistent networks", translation, 128, 9)
published("icnet", "2017-04", "Zhao et al., Image cascade network", with_inputs, ImageCascade,
          (19,), *_IMAGE, 512, 512)
published("deeplab_v3", "2017-06", "Chen et al., Rethinking atrous convolution", deeplab_v3)
published("edsr", "2017-07", "Lim et al., Enhanced deep super-resolution", super_resolution, 64,
          16, False, 48)
published("retinanet", "2017-08", "Lin et al., Focal loss", with_inputs, FeaturePyramid,
          (80, 9, 160), *_IMAGE, 320, 320)
published("erfnet", "2017-10", "Romera et al., ERFNet", erfnet)
published("vqvae", "2017-11", "van den Oord et al., Discrete representation learning", vqvae)
published("deeplab_v3_plus", "2018-02", "Chen et al., Encoder-decoder with atrous convolution",
          with_inputs, DeepLabPlus, (), *_IMAGE, 256, 256)
published("pose_baseline", "2018-04", "Xiao et al., Simple baselines for pose", pose_baseline)
published("unet_plus_plus", "2018-07", "Zhou et al., UNet++", with_inputs, NestedUNet,
          ([16, 32, 64, 128],), *_IMAGE, 128, 128)
published("esrgan", "2018-09", "Wang et al., ESRGAN", esrgan)
published("stylegan", "2018-12", "Karras et al., A style-based generator", with_inputs,
          StyleGenerator, ([512, 512, 256, 128, 64, 32],), 1, 256)
published("fast_scnn", "2019-02", "Poudel et al., Fast-SCNN", with_inputs, TwoResolutions, (19,),
          *_IMAGE, 512, 1024)
published("hrnet", "2019-02", "Sun et al., High-resolution representations", with_inputs,
          Resolutions, (32, 4, 17), *_IMAGE, 256, 192)
published("centernet", "2019-04", "Zhou et al., Objects as points", with_inputs, Centers, (),
          *_IMAGE, 256, 256)
published("cspdarknet", "2020-04", "Bochkovskiy et al., YOLOv4", cross_stage, 32, (1, 2, 8, 8))
published("detr", "2020-05", "Carion et al., End-to-end detection", with_inputs, Queries,
          (256, 8, 6, 100, 64), *_IMAGE, 256, 256)
published("yolo_v5n", "2020-06", "Jocher, YOLOv5", with_inputs, OneStage, (16, 255), *_IMAGE, 320,
          320)
published("yolo_v5s", "2020-06", "Jocher, YOLOv5", with_inputs, OneStage, (32, 255), *_IMAGE, 320,
          320)
published("ddpm", "2020-06", "Ho et al., Denoising diffusion", diffusion, 64, 32)
published("yolos_tiny", "2021-06", "Fang et al., You only look at one sequence", yolos)
published("swinir", "2021-08", "Liang et al., SwinIR", swinir)
published("latent_diffusion", "2021-12", "Rombach et al., Latent diffusion", diffusion, 128, 32)
published("nafnet", "2022-04", "Chen et al., Simple baselines for restoration", nafnet)
published("dit_small", "2022-12", "Peebles and Xie, Diffusion with transformers",
          diffusion_transformer)
