"""Convolutional networks for images and video, of unusual kinds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .layers import Branches, Residual, basic, bottleneck, classifier, conv, image
from .registry import network


@network("images")
def dilated() -> tuple[nn.Module, Tensor]:
    """Residual blocks that dilate instead of striding."""
    body: list[nn.Module] = [conv(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 32
    for outputs, dilation in [(64, 1), (64, 1), (128, 2), (128, 2), (192, 4), (192, 8)]:
        body.append(basic(width, outputs, dilation=dilation))
        width = outputs
    return nn.Sequential(*body, classifier(width, 200)), image(192)


@network("images")
def asymmetric() -> tuple[nn.Module, Tensor]:
    """Convolutions of 1×7 and 7×1 in branches."""

    def block(inputs: int, width: int) -> nn.Sequential:
        branches = Branches(
            conv(inputs, width, 1),
            nn.Sequential(
                conv(inputs, width, 1), conv(width, width, (1, 7)), conv(width, width, (7, 1))
            ),
            nn.Sequential(
                conv(inputs, width // 2, 1), conv(width // 2, width, (3, 1)),
                conv(width, width, (1, 3)),
            ),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(inputs, width // 2, 1)),
        )  # fmt: skip
        return nn.Sequential(branches)

    body = [block(192, 96), block(336, 96), conv(336, 448, 3, 2), block(448, 128), block(448, 128)]
    stem = [conv(3, 32, 3, 2), conv(32, 64), nn.MaxPool2d(3, 2, 1), conv(64, 192)]
    return nn.Sequential(*stem, *body, classifier(448)), image(256)


class Grown(nn.Module):
    """Channels that a body adds to its input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densely(stages: list[int], growth: int, width: int) -> nn.Sequential:
    """Stages of layers that see the results of all layers before them."""
    layers: list[nn.Module] = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for i, count in enumerate(stages):
        for _ in range(count):
            layers.append(Grown(width, growth))
            width += growth
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        if i < len(stages) - 1:
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
            width //= 2
    return nn.Sequential(*layers, classifier(width))


@network("images")
def dense_connections() -> tuple[nn.Module, Tensor]:
    """Layers that see the results of all layers before them."""
    return densely([4, 8, 12, 10], 24, 48), image(224)


@network("images")
def multiple_branches() -> tuple[nn.Module, Tensor]:
    """Branches of different kernels, joined by their channels."""

    def block(inputs: int, a: int, b: int, c: int, d: int, e: int, f: int) -> Branches:
        return Branches(
            conv(inputs, a, 1),
            nn.Sequential(conv(inputs, b, 1), conv(b, c)),
            nn.Sequential(conv(inputs, d, 1), conv(d, e, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, f, 1)),
        )

    layers = [
        conv(3, 48, 7, 2), nn.MaxPool2d(3, 2, 1), nn.LocalResponseNorm(5), conv(48, 160),
        nn.MaxPool2d(3, 2, 1), block(160, 64, 80, 112, 16, 32, 32),
        block(240, 96, 96, 160, 24, 64, 64), nn.MaxPool2d(3, 2, 1),
        block(384, 160, 96, 208, 16, 48, 64), block(480, 128, 128, 256, 24, 64, 64),
        nn.MaxPool2d(3, 2, 1), block(512, 256, 160, 320, 32, 128, 128), nn.Dropout(0.4),
    ]  # fmt: skip
    return nn.Sequential(*layers, classifier(832)), image(224)


@network("images")
def large_kernels() -> tuple[nn.Module, Tensor]:
    """Depthwise convolutions of 13×13 and GELU."""

    def block(width: int, kernel: int) -> nn.Sequential:
        return nn.Sequential(
            Residual(conv(width, width, kernel, groups=width, activation=nn.GELU)),
            Residual(conv(width, 3 * width, 1, activation=nn.GELU),
                     conv(3 * width, width, 1, activation=None)),
        )  # fmt: skip

    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 4)]
    layers += [block(64, 13), block(64, 13), nn.Conv2d(64, 160, 2, 2)]
    layers += [block(160, 13) for _ in range(4)] + [nn.Conv2d(160, 320, 2, 2)]
    layers += [block(320, 9) for _ in range(3)]
    return nn.Sequential(*layers, classifier(320)), image(224)


@network("images")
def grouped_wide() -> tuple[nn.Module, Tensor]:
    """Residual blocks of 32 groups, wide at the end."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, outputs, count in [(128, 256, 2), (256, 512, 3), (512, 1024, 4), (1024, 2048, 2)]:
        for i in range(count):
            stride = 2 if i == 0 and width > 128 else 1
            layers.append(bottleneck(inputs, width, outputs, stride, groups=32))
            inputs = outputs
    return nn.Sequential(*layers, classifier(2048)), image(224)


class Coordinates(nn.Module):
    """A feature map with two more channels that hold the coordinates."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        rows = torch.linspace(-1, 1, height).view(1, 1, -1, 1).expand(1, 1, height, width)
        columns = torch.linspace(-1, 1, width).view(1, 1, 1, -1).expand(1, 1, height, width)
        self.register_buffer("grid", torch.cat([rows, columns], 1).clone())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.grid], 1)


@network("images")
def coordinates() -> tuple[nn.Module, Tensor]:
    """Convolutions that see coordinates, for the regression of positions."""
    layers = [
        Coordinates(128, 128), nn.Conv2d(5, 48, 3, 2, 1), nn.LeakyReLU(0.1),
        Coordinates(64, 64), nn.Conv2d(50, 96, 3, 2, 1), nn.LeakyReLU(0.1),
        Coordinates(32, 32), nn.Conv2d(98, 192, 3, 2, 1), nn.LeakyReLU(0.1),
        nn.Conv2d(192, 256, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(256, 21, 1), nn.Flatten(2),
        nn.Softmax(-1),
    ]  # fmt: skip
    return nn.Sequential(*layers), image(128)


@network("video")
def convolutions_3d() -> tuple[nn.Module, Tensor]:
    """Residual blocks of convolutions over space and time."""

    def block(inputs: int, outputs: int, stride: int) -> Residual:
        shortcut = nn.Conv3d(inputs, outputs, 1, stride, bias=False) if stride > 1 else None
        return Residual(
            nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm3d(outputs),
            nn.ReLU(), nn.Conv3d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm3d(outputs), shortcut=shortcut, after=nn.ReLU(),
        )  # fmt: skip

    layers = [
        nn.Conv3d(3, 32, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(32),
        nn.ReLU(), block(32, 32, 1), block(32, 64, 2), block(64, 128, 2), block(128, 256, 2),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(256, 400),
    ]  # fmt: skip
    return nn.Sequential(*layers), torch.randn(1, 3, 16, 112, 112)


@network("video")
def factored_video() -> tuple[nn.Module, Tensor]:
    """Convolutions over space, then over time."""

    def step(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        middle = (inputs + outputs) // 2
        return nn.Sequential(
            nn.Conv3d(inputs, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1)),
            nn.BatchNorm3d(middle), nn.ReLU(),
            nn.Conv3d(middle, outputs, (3, 1, 1), (stride, 1, 1), (1, 0, 0)),
            nn.BatchNorm3d(outputs), nn.ReLU(),
        )  # fmt: skip

    layers = [step(3, 48, 2), step(48, 48, 1), step(48, 96, 2), step(96, 96, 1), step(96, 192, 2)]
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(192, 174)]
    return nn.Sequential(*layers), torch.randn(1, 3, 8, 96, 96)


@network("images")
def super_resolution() -> tuple[nn.Module, Tensor]:
    """Residual blocks without normalization, and pixels from channels."""

    def block() -> Residual:
        return Residual(
            nn.Conv2d(48, 48, 3, padding=1), nn.PReLU(48), nn.Conv2d(48, 48, 3, padding=1)
        )  # fmt: skip

    layers = [
        nn.Conv2d(3, 48, 3, padding=1), Residual(*[block() for _ in range(6)]),
        nn.Conv2d(48, 192, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(48),
        nn.Conv2d(48, 3, 3, padding=1),
    ]  # fmt: skip
    return nn.Sequential(*layers), image(224, 320)


@network("images")
def deconvolution() -> tuple[nn.Module, Tensor]:
    """Shrinking, mapping, and a large transposed convolution."""
    layers: list[nn.Module] = [nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56)]
    layers += [nn.Conv2d(56, 16, 1), nn.PReLU(16)]
    for _ in range(4):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.PReLU(16)]
    layers += [nn.Conv2d(16, 56, 1), nn.PReLU(56), nn.ConvTranspose2d(56, 1, 9, 3, 4, 2)]
    return nn.Sequential(*layers), image(96, 160, channels=1)
