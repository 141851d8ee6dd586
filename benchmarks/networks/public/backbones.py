"""Convolutional classifiers of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..convolutional import densely
from ..layers import (
    Activation,
    Branches,
    LayerNorm2d,
    Residual,
    SqueezeExcite,
    ToChannelsFirst,
    ToChannelsLast,
    basic,
    bottleneck,
    classifier,
    conv,
    image,
    inverted,
)
from ..mobile import Ghost, ghost_block, separable, shuffle_unit, split_unit
from ..speech import Scales as Scales1d
from .registry import published

Built = tuple[nn.Module, Tensor]


def plain(plan: Sequence[tuple[int, int, int] | None], inner: int, side: int, size: int) -> Built:
    """Convolutions of (channels, kernel, stride), pooling where None, and linear layers."""
    layers: list[nn.Module] = []
    width = 3
    for step in plan:
        if step is None:
            layers.append(nn.MaxPool2d(3 if plan[0][1] > 3 else 2, 2))
            continue
        channels, kernel, stride = step
        layers += [nn.Conv2d(width, channels, kernel, stride, kernel // 2), nn.ReLU()]
        width = channels
    layers += [nn.AdaptiveAvgPool2d(side), nn.Flatten(), nn.Linear(width * side * side, inner)]
    layers += [nn.ReLU(), nn.Linear(inner, inner), nn.ReLU(), nn.Linear(inner, 1000)]
    return nn.Sequential(*layers), image(size)


def vgg(counts: Sequence[int], normalized: bool = False) -> Built:
    """Convolutions of 3×3 in five stages; images of 128 pixels keep the weights small."""
    layers: list[nn.Module] = []
    width = 3
    for channels, count in zip((64, 128, 256, 512, 512), counts, strict=True):
        for _ in range(count):
            layers.append(nn.Conv2d(width, channels, 3, padding=1))
            layers += [nn.BatchNorm2d(channels), nn.ReLU()] if normalized else [nn.ReLU()]
            width = channels
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * 16, 4096), nn.ReLU(), nn.Linear(4096, 4096)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(4096, 1000)), image(128)


def network_in_network() -> Built:
    """Convolutions with two of 1×1 after each."""
    layers: list[nn.Module] = []
    width = 3
    for channels, kernel, stride in ((96, 11, 4), (256, 5, 1), (384, 3, 1), (1024, 3, 1)):
        layers += [nn.Conv2d(width, channels, kernel, stride, kernel // 2), nn.ReLU()]
        for _ in range(2):
            layers += [nn.Conv2d(channels, channels, 1), nn.ReLU()]
        layers.append(nn.MaxPool2d(3, 2))
        width = channels
    return nn.Sequential(*layers, classifier(1024)), image(224)


def googlenet(normalized: bool) -> Built:
    """Nine modules of four branches; the fifth kernel is two of 3×3 where normalized."""

    def step(a: int, b: int, kernel: int = 1, stride: int = 1) -> nn.Module:
        if normalized:
            return conv(a, b, kernel, stride)
        return nn.Sequential(nn.Conv2d(a, b, kernel, stride, kernel // 2), nn.ReLU())

    def module(width: int, a: int, b: int, c: int, d: int, e: int, f: int) -> Branches:
        large = [step(d, e, 3), step(e, e, 3)] if normalized else [step(d, e, 5)]
        return Branches(
            step(width, a), nn.Sequential(step(width, b), step(b, c, 3)),
            nn.Sequential(step(width, d), *large),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), step(width, f)),
        )  # fmt: skip

    pool = nn.MaxPool2d(3, 2, 1)
    layers = [step(3, 64, 7, 2), pool, step(64, 64), step(64, 192, 3), pool]
    width = 192
    for plan in ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
                 (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
                 (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
                 (256, 160, 320, 32, 128, 128), None, (256, 160, 320, 32, 128, 128),
                 (384, 192, 384, 48, 128, 128)):  # fmt: skip
        layers.append(module(width, *plan) if plan else pool)
        width = plan[0] + plan[2] + plan[4] + plan[5] if plan else width
    return nn.Sequential(*layers, classifier(width)), image(224)


def chain(width: int, *steps: tuple[int, int | tuple[int, int], int]) -> nn.Sequential:
    """Convolutions of (channels, kernel, stride)."""
    layers = []
    for channels, kernel, stride in steps:
        layers.append(conv(width, channels, kernel, stride))
        width = channels
    return nn.Sequential(*layers)


def inception(residual: bool) -> Built:
    """Modules of asymmetric branches at three sizes, with sums where residual."""
    layers: list[nn.Module] = [
        chain(3, (32, 3, 2), (32, 3, 1), (64, 3, 1)), nn.MaxPool2d(3, 2, 1),
        chain(64, (80, 1, 1), (192, 3, 1)), nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    width = 192
    for pooled in (32, 64, 64):
        layers.append(Branches(
            conv(width, 64, 1), chain(width, (48, 1, 1), (64, 5, 1)),
            chain(width, (64, 1, 1), (96, 3, 1), (96, 3, 1)),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(width, pooled, 1)),
        ))  # fmt: skip
        width = 224 + pooled
    layers.append(Branches(
        conv(width, 384, 3, 2), chain(width, (64, 1, 1), (96, 3, 1), (96, 3, 2)),
        nn.MaxPool2d(3, 2, 1),
    ))  # fmt: skip
    width += 480
    if residual:
        for _ in range(6):
            body = Branches(conv(width, 192, 1), chain(width, (128, 1, 1), (160, (1, 7), 1),
                                                       (192, (7, 1), 1)))  # fmt: skip
            layers.append(Residual(body, nn.Conv2d(384, width, 1), after=nn.ReLU()))
    else:
        for inner in (128, 160, 160, 192):
            row, column = (inner, (1, 7), 1), (inner, (7, 1), 1)
            layers.append(Branches(
                conv(width, 192, 1), chain(width, (inner, 1, 1), row, (192, (7, 1), 1)),
                chain(width, (inner, 1, 1), column, row, column, (192, (1, 7), 1)),
                nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(width, 192, 1)),
            ))  # fmt: skip
            width = 768
    layers.append(Branches(
        chain(width, (192, 1, 1), (320, 3, 2)),
        chain(width, (192, 1, 1), (192, (1, 7), 1), (192, (7, 1), 1), (192, 3, 2)),
        nn.MaxPool2d(3, 2, 1),
    ))  # fmt: skip
    width += 512
    for _ in range(2):
        layers.append(Branches(
            conv(width, 320, 1),
            nn.Sequential(conv(width, 384, 1), Branches(conv(384, 384, (1, 3)),
                                                        conv(384, 384, (3, 1)))),
            nn.Sequential(conv(width, 448, 1), conv(448, 384),
                          Branches(conv(384, 384, (1, 3)), conv(384, 384, (3, 1)))),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(width, 192, 1)),
        ))  # fmt: skip
        width = 2048
    return nn.Sequential(*layers, classifier(width)), image(299)


def resnet(
    counts: Sequence[int],
    block: str = "bottleneck",
    groups: int = 1,
    base: int = 64,
    excited: bool = False,
    widths: Sequence[int] = (64, 128, 256, 512),
    size: int = 224,
) -> Built:
    """Residual blocks in four stages."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for i, (width, count) in enumerate(zip(widths, counts, strict=True)):
        for j in range(count):
            stride = 2 if i and j == 0 else 1
            if block == "basic":
                layers.append(basic(inputs, width, stride))
                inputs = width
                continue
            inner, outputs = width * base * groups // 64, 4 * width
            reduced = outputs // 16 if excited else 0
            layers.append(bottleneck(inputs, inner, outputs, stride, groups, reduced))
            inputs = outputs
    return nn.Sequential(*layers, classifier(inputs)), image(size)


def activated_before(counts: Sequence[int]) -> Built:
    """Residual blocks whose normalization and activation come before the convolutions."""

    def step(a: int, b: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.BatchNorm2d(a), nn.ReLU(),
                nn.Conv2d(a, b, kernel, stride, kernel // 2, bias=False)]  # fmt: skip

    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for i, count in enumerate(counts):
        width = 64 * 2**i
        for j in range(count):
            stride = 2 if i and j == 0 else 1
            shortcut = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False) if j == 0 else None
            layers.append(Residual(*step(inputs, width, 1), *step(width, width, 3, stride),
                                   *step(width, 4 * width, 1), shortcut=shortcut))  # fmt: skip
            inputs = 4 * width
    return nn.Sequential(*layers, nn.BatchNorm2d(inputs), nn.ReLU(), classifier(inputs)), image()


def wide(depth: int, factor: int) -> Built:
    """Wide residual blocks on an image of 32×32."""
    layers: list[nn.Module] = [conv(3, 16)]
    inputs = 16
    for i in range(3):
        for j in range((depth - 4) // 6):
            outputs = 16 * factor * 2**i
            layers.append(basic(inputs, outputs, 2 if i and j == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, classifier(inputs, 100)), image(32)


def squeezenet(early: bool) -> Built:
    """Narrow convolutions of 1×1 before branches of 1×1 and 3×3."""

    def fire(inputs: int, squeezed: int, width: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, squeezed, 1), nn.ReLU(),
            Branches(nn.Sequential(nn.Conv2d(squeezed, width, 1), nn.ReLU()),
                     nn.Sequential(nn.Conv2d(squeezed, width, 3, padding=1), nn.ReLU())),
        )  # fmt: skip

    first = nn.Conv2d(3, 64, 3, 2) if early else nn.Conv2d(3, 96, 7, 2)
    layers: list[nn.Module] = [first, nn.ReLU(), nn.MaxPool2d(3, 2)]
    width = 64 if early else 96
    pools = (2, 4) if early else (3, 7)
    for i, (squeezed, outputs) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        if i in pools:
            layers.append(nn.MaxPool2d(3, 2))
        layers.append(fire(width, squeezed, outputs))
        width = 2 * outputs
    layers += [nn.Conv2d(width, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers), image(224)


def densenet(counts: Sequence[int], growth: int = 32, width: int = 64) -> Built:
    """Layers that see the results of all layers before them."""
    return densely(list(counts), growth, width), image(224)


def xception() -> Built:
    """Residual blocks of depthwise separable convolutions."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2), conv(32, 64)]
    inputs = 64
    for outputs in (128, 256, 728):
        body = [separable(inputs, outputs), separable(outputs, outputs), nn.MaxPool2d(3, 2, 1)]
        shortcut = conv(inputs, outputs, 1, 2, activation=None)
        layers.append(Residual(*body, shortcut=shortcut))
        inputs = outputs
    layers += [Residual(*(separable(728, 728) for _ in range(3))) for _ in range(8)]
    body = [separable(728, 728), separable(728, 1024), nn.MaxPool2d(3, 2, 1)]
    layers.append(Residual(*body, shortcut=conv(728, 1024, 1, 2, activation=None)))
    layers += [separable(1024, 1536), separable(1536, 2048), classifier(2048)]
    return nn.Sequential(*layers), image(299)


def rounded(width: float) -> int:
    """A width that is a multiple of eight."""
    return max(8, int(width + 4) // 8 * 8)


def mobilenet_v1(factor: float) -> Built:
    """Depthwise separable convolutions, one after the other."""
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5
    layers: list[nn.Module] = [conv(3, rounded(32 * factor), 3, 2)]
    width = rounded(32 * factor)
    for channels, stride in [*plan, (1024, 2), (1024, 1)]:
        layers.append(separable(width, rounded(channels * factor), stride))
        width = rounded(channels * factor)
    return nn.Sequential(*layers, classifier(width)), image(224)


def stages(
    plan: Sequence[tuple[int, int, float, int, int]],
    stem: int,
    head: int,
    activation: Activation = nn.ReLU6,
    excited: bool = False,
    size: int = 224,
) -> Built:
    """Inverted residual blocks of (channels, count, expansion, kernel, stride)."""
    layers: list[nn.Module] = [conv(3, stem, 3, 2, activation=activation)]
    width = stem
    for channels, count, expansion, kernel, stride in plan:
        for i in range(count):
            reduced = max(1, width // 4) if excited else 0
            first = stride if i == 0 else 1
            layers.append(
                inverted(width, channels, first, expansion, kernel, reduced, activation)
            )  # fmt: skip
            width = channels
    layers += [conv(width, head, 1, activation=activation), classifier(head)]
    return nn.Sequential(*layers), image(size)


def mobilenet_v2(factor: float) -> Built:
    """Inverted residual blocks of some width."""
    plan = [(16, 1, 1, 3, 1), (24, 2, 6, 3, 2), (32, 3, 6, 3, 2), (64, 4, 6, 3, 2)]
    plan += [(96, 3, 6, 3, 1), (160, 3, 6, 3, 2), (320, 1, 6, 3, 1)]
    scaled = [(rounded(c * factor), *rest) for c, *rest in plan]
    return stages(scaled, rounded(32 * factor), max(1280, rounded(1280 * factor)))


def mobilenet_v3(large: bool) -> Built:
    """Inverted residual blocks with hard activations, as a search found them."""
    small_plan = [(16, 16, 3, 2, 1, 0), (72, 24, 3, 2, 0, 0), (88, 24, 3, 1, 0, 0)]
    small_plan += [(96, 40, 5, 2, 1, 1), (240, 40, 5, 1, 1, 1), (240, 40, 5, 1, 1, 1)]
    small_plan += [(120, 48, 5, 1, 1, 1), (144, 48, 5, 1, 1, 1), (288, 96, 5, 2, 1, 1)]
    small_plan += [(576, 96, 5, 1, 1, 1)] * 2
    large_plan = [(16, 16, 3, 1, 0, 0), (64, 24, 3, 2, 0, 0), (72, 24, 3, 1, 0, 0)]
    large_plan += [(72, 40, 5, 2, 1, 0), (120, 40, 5, 1, 1, 0), (120, 40, 5, 1, 1, 0)]
    large_plan += [(240, 80, 3, 2, 0, 1), (200, 80, 3, 1, 0, 1), (184, 80, 3, 1, 0, 1)]
    large_plan += [(184, 80, 3, 1, 0, 1), (480, 112, 3, 1, 1, 1), (672, 112, 3, 1, 1, 1)]
    large_plan += [(672, 160, 5, 2, 1, 1), (960, 160, 5, 1, 1, 1), (960, 160, 5, 1, 1, 1)]
    layers: list[nn.Module] = [conv(3, 16, 3, 2, activation=nn.Hardswish)]
    width = 16
    for inner, channels, kernel, stride, excited, hard in large_plan if large else small_plan:
        activation = nn.Hardswish if hard else nn.ReLU
        reduced = rounded(inner / 4) if excited else 0
        layers.append(inverted(width, channels, stride, inner / width, kernel, reduced, activation,
                               nn.Hardsigmoid))  # fmt: skip
        width = channels
    head = 6 * width
    layers += [conv(width, head, 1, activation=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    layers += [nn.Linear(head, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers), image(224)


def shufflenet(groups: int) -> Built:
    """Units of grouped convolutions, with shuffled channels."""
    widths = {2: (200, 400, 800), 3: (240, 480, 960)}[groups]
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for width, count in zip(widths, (4, 8, 4), strict=True):
        layers.append(shuffle_unit(inputs, width, groups, 2))
        layers += [shuffle_unit(width, width, groups) for _ in range(count - 1)]
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


def shufflenet_v2(widths: tuple[int, int, int], head: int) -> Built:
    """Units that split, join and shuffle their channels."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for width, count in zip(widths, (4, 8, 4), strict=True):
        layers.append(split_unit(inputs, width, 2))
        layers += [split_unit(width, width) for _ in range(count - 1)]
        inputs = width
    return nn.Sequential(*layers, conv(inputs, head, 1), classifier(head)), image(224)


def efficientnet(width: float, depth: float, size: int) -> Built:
    """Inverted residual blocks, scaled in width, depth and size of the image."""
    plan = [(16, 1, 1, 3, 1), (24, 2, 6, 3, 2), (40, 2, 6, 5, 2), (80, 3, 6, 3, 2)]
    plan += [(112, 3, 6, 5, 1), (192, 4, 6, 5, 2), (320, 1, 6, 3, 1)]
    scaled = [(rounded(c * width), math.ceil(n * depth), *rest) for c, n, *rest in plan]
    return stages(scaled, rounded(32 * width), rounded(1280 * width), nn.SiLU, True, size)


def efficientnet_v2() -> Built:
    """Fused blocks first, then inverted residual blocks."""

    def fused(a: int, b: int, stride: int, expansion: int) -> nn.Module:
        if expansion == 1:
            body = [conv(a, b, 3, stride, activation=nn.SiLU)]
        else:
            body = [conv(a, a * expansion, 3, stride, activation=nn.SiLU),
                    conv(a * expansion, b, 1, activation=None)]  # fmt: skip
        return Residual(*body) if stride == 1 and a == b else nn.Sequential(*body)

    layers: list[nn.Module] = [conv(3, 24, 3, 2, activation=nn.SiLU)]
    width = 24
    for channels, count, expansion, stride in ((24, 2, 1, 1), (48, 4, 4, 2), (64, 4, 4, 2)):
        for i in range(count):
            layers.append(fused(width, channels, stride if i == 0 else 1, expansion))
            width = channels
    for channels, count, expansion, stride in ((128, 6, 4, 2), (160, 9, 6, 1), (256, 15, 6, 2)):
        for i in range(count):
            first = stride if i == 0 else 1
            layers.append(inverted(width, channels, first, expansion, 3, width // 4, nn.SiLU))
            width = channels
    layers += [conv(width, 1280, 1, activation=nn.SiLU), classifier(1280)]
    return nn.Sequential(*layers), image(224)


class Mixed(nn.Module):
    """Depthwise convolutions of growing kernels, each over a part of the channels."""

    def __init__(self, width: int, kernels: Sequence[int], stride: int) -> None:
        super().__init__()
        part = width // len(kernels)
        self.parts = [part] * (len(kernels) - 1) + [width - part * (len(kernels) - 1)]
        self.layers = nn.ModuleList(
            nn.Conv2d(p, p, k, stride, k // 2, groups=p, bias=False)
            for p, k in zip(self.parts, kernels, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = zip(self.layers, x.split(self.parts, 1), strict=True)
        return torch.cat([layer(part) for layer, part in parts], 1)


def mixnet() -> Built:
    """Inverted residual blocks with depthwise kernels of several sizes."""
    layers: list[nn.Module] = [conv(3, 16, 3, 2)]
    width = 16
    plan = (((3,), 24, 2, 6, 2), ((3, 5, 7), 40, 2, 6, 4), ((3, 5, 7), 80, 2, 6, 3),
            ((3, 5, 7, 9), 120, 1, 6, 3), ((3, 5, 7, 9, 11), 200, 2, 6, 3))  # fmt: skip
    for kernels, channels, stride, expansion, count in plan:
        for i in range(count):
            inner, first = width * expansion, stride if i == 0 else 1
            body = [
                conv(width, inner, 1, activation=nn.SiLU), Mixed(inner, kernels, first),
                nn.BatchNorm2d(inner), nn.SiLU(), SqueezeExcite(inner, width // 2, nn.SiLU),
                conv(inner, channels, 1, activation=None),
            ]  # fmt: skip
            same = first == 1 and width == channels
            layers.append(Residual(*body) if same else nn.Sequential(*body))
            width = channels
    return nn.Sequential(*layers, conv(width, 1536, 1), classifier(1536)), image(224)


def ghostnet() -> Built:
    """Ghost blocks of varied width."""
    plan = [(16, 16, 3, 1, 0), (48, 24, 3, 2, 0), (72, 24, 3, 1, 0), (72, 40, 5, 2, 1)]
    plan += [(120, 40, 5, 1, 1), (240, 80, 3, 2, 0), (200, 80, 3, 1, 0), (184, 80, 3, 1, 0)]
    plan += [(184, 80, 3, 1, 0), (480, 112, 3, 1, 1), (672, 112, 3, 1, 1), (672, 160, 5, 2, 1)]
    plan += [(960, 160, 5, 1, 0), (960, 160, 5, 1, 1)] * 2
    layers: list[nn.Module] = [conv(3, 16, 3, 2)]
    width = 16
    for inner, channels, kernel, stride, excited in plan:
        layers.append(ghost_block(width, inner, channels, kernel, stride, bool(excited)))
        width = channels
    layers += [Ghost(width, 960), nn.AdaptiveAvgPool2d(1), nn.Conv2d(960, 1280, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1280, 1000)), image(224)


def regnet(widths: Sequence[int], counts: Sequence[int], group: int, excited: bool) -> Built:
    """Grouped residual blocks without a bottleneck, in a designed space."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2)]
    inputs = 32
    for width, count in zip(widths, counts, strict=True):
        for i in range(count):
            reduced = max(1, inputs // 4) if excited else 0
            stride = 2 if i == 0 else 1
            layers.append(bottleneck(inputs, width, width, stride, width // group, reduced))
            inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


def repvgg(widths: Sequence[int], counts: Sequence[int]) -> Built:
    """Convolutions of 3×3 and ReLU alone, as deployed."""
    layers: list[nn.Module] = [nn.Conv2d(3, min(64, widths[0]), 3, 2, 1), nn.ReLU()]
    inputs = min(64, widths[0])
    for width, count in zip(widths, counts, strict=True):
        for i in range(count):
            layers += [nn.Conv2d(inputs, width, 3, 2 if i == 0 else 1, 1), nn.ReLU()]
            inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


def mobileone() -> Built:
    """Depthwise and 1×1 convolutions with ReLU, as deployed."""
    layers: list[nn.Module] = [nn.Conv2d(3, 48, 3, 2, 1), nn.ReLU()]
    inputs = 48
    for width, count in ((48, 2), (128, 8), (256, 10), (1024, 1)):
        for i in range(count):
            depthwise = nn.Conv2d(inputs, inputs, 3, 2 if i == 0 else 1, 1, groups=inputs)
            layers += [depthwise, nn.ReLU(), nn.Conv2d(inputs, width, 1), nn.ReLU()]
            inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


class Selective(nn.Module):
    """Two kernels' results, weighted by attention over both."""

    def __init__(self, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.small = conv(width, width, 3, stride, groups)
        self.large = conv(width, width, 3, stride, groups, dilation=2)
        self.narrow = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(width, max(32, width // 16), 1))
        self.choose = nn.Conv2d(max(32, width // 16), 2 * width, 1)

    def forward(self, x: Tensor) -> Tensor:
        both = torch.stack([self.small(x), self.large(x)], 1)
        weights = self.choose(self.narrow(both.sum(1))).unflatten(1, (2, -1)).softmax(1)
        return (both * weights).sum(1)


class Radix(nn.Module):
    """Two splits of grouped convolutions, weighted by attention over both."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.splits = conv(width, 2 * width, 3, stride, groups=2)
        self.narrow = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(width, max(32, width // 2), 1))
        self.choose = nn.Conv2d(max(32, width // 2), 2 * width, 1)

    def forward(self, x: Tensor) -> Tensor:
        both = self.splits(x).unflatten(1, (2, -1))
        weights = self.choose(self.narrow(both.sum(1))).unflatten(1, (2, -1)).softmax(1)
        return (both * weights).sum(1)


class Scales(Scales1d):
    """Groups of a feature map's channels that also see the group before them."""

    def __init__(self, channels: int, count: int, stride: int) -> None:
        super().__init__(channels, count, 1)
        part = channels // count
        self.layers = nn.ModuleList(conv(part, part) for _ in range(count - 1))
        self.shrink = nn.AvgPool2d(3, stride, 1) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.shrink(x))


def varied(kind: str, counts: Sequence[int] = (3, 4, 6, 3)) -> Built:
    """Residual bottlenecks whose middle convolution is of another kind."""

    def middle(width: int, stride: int) -> nn.Module:
        if kind == "selective":
            return Selective(width, stride, 32)
        return Radix(width, stride) if kind == "radix" else Scales(width, 4, stride)

    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for i, count in enumerate(counts):
        width = (128 if kind == "selective" else 64) * 2**i
        outputs = 256 * 2**i
        for j in range(count):
            stride = 2 if i and j == 0 else 1
            shortcut = conv(inputs, outputs, 1, stride, activation=None) if j == 0 else None
            layers.append(Residual(conv(inputs, width, 1), middle(width, stride),
                                   conv(width, outputs, 1, activation=None),
                                   shortcut=shortcut, after=nn.ReLU()))  # fmt: skip
            inputs = outputs
    return nn.Sequential(*layers, classifier(inputs)), image(224)


class Once(nn.Module):
    """Layers one after the other, whose results are all joined once at the end."""

    def __init__(self, inputs: int, width: int, count: int, outputs: int) -> None:
        super().__init__()
        sizes = [inputs] + [width] * (count - 1)
        self.layers = nn.ModuleList(conv(size, width) for size in sizes)
        self.join = conv(inputs + count * width, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(layer(found[-1]))
        return self.join(torch.cat(found, 1))


def vovnet() -> Built:
    """Layers joined once."""
    layers: list[nn.Module] = [conv(3, 64, 3, 2), conv(64, 64), conv(64, 128)]
    inputs = 128
    for width, outputs in ((64, 128), (80, 256), (96, 384), (112, 512)):
        layers += [nn.MaxPool2d(3, 2, 1), Once(inputs, width, 5, outputs)]
        inputs = outputs
    return nn.Sequential(*layers, classifier(inputs)), image(224)


def darknet(counts: Sequence[int]) -> Built:
    """Residual blocks of 1×1 and 3×3 with a leaky activation."""

    def leaky() -> nn.Module:
        return nn.LeakyReLU(0.1)

    layers: list[nn.Module] = [conv(3, 32, activation=leaky)]
    width = 32
    for count in counts:
        layers.append(conv(width, 2 * width, 3, 2, activation=leaky))
        width *= 2
        layers += [
            Residual(conv(width, width // 2, 1, activation=leaky),
                     conv(width // 2, width, activation=leaky))
            for _ in range(count)
        ]  # fmt: skip
    return nn.Sequential(*layers, classifier(width)), image(256)


def convmixer(width: int, depth: int, kernel: int, patch: int) -> Built:
    """Depthwise convolutions of large kernels over patches."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, patch, patch), nn.GELU(), nn.BatchNorm2d(width)]
    for _ in range(depth):
        mixing = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
        layers.append(Residual(mixing, nn.GELU(), nn.BatchNorm2d(width)))
        layers += [nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)]
    return nn.Sequential(*layers, classifier(width)), image(224)


class Response(nn.Module):
    """Channels last, scaled by their norms over the places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width) * 0.1)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        norm = x.square().sum((1, 2), keepdim=True).sqrt()
        return x + self.weight * (x * norm / (norm.mean(-1, keepdim=True) + 1e-6)) + self.bias


class Kernels(nn.Module):
    """Parts of the channels through a square and two long kernels, the others as they are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        part = width // 8
        self.parts = [width - 3 * part, part, part, part]
        self.square = nn.Conv2d(part, part, 3, padding=1, groups=part)
        self.row = nn.Conv2d(part, part, (1, 11), padding=(0, 5), groups=part)
        self.column = nn.Conv2d(part, part, (11, 1), padding=(5, 0), groups=part)

    def forward(self, x: Tensor) -> Tensor:
        kept, a, b, c = x.split(self.parts, 1)
        return torch.cat([kept, self.square(a), self.row(b), self.column(c)], 1)


def convnext(
    widths: Sequence[int], counts: Sequence[int], kind: str = "", kernel: int = 7
) -> Built:
    """Depthwise convolutions and linear layers in stages."""

    def block(width: int) -> Residual:
        depthwise = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
        if kind == "inception":
            return Residual(Kernels(width), nn.BatchNorm2d(width), nn.Conv2d(width, 4 * width, 1),
                            nn.GELU(), nn.Conv2d(4 * width, width, 1))  # fmt: skip
        scale = [Response(4 * width)] if kind == "response" else []
        return Residual(
            depthwise, ToChannelsLast(), nn.LayerNorm(width), nn.Linear(width, 4 * width),
            nn.GELU(), *scale, nn.Linear(4 * width, width), ToChannelsFirst(),
        )  # fmt: skip

    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), LayerNorm2d(widths[0])]
    for i, (width, count) in enumerate(zip(widths, counts, strict=True)):
        if i:
            layers += [LayerNorm2d(widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, 2)]
        layers += [block(width) for _ in range(count)]
    return nn.Sequential(*layers, classifier(widths[-1])), image(224)


class Partial(nn.Module):
    """A convolution of a quarter of the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts = [width // 4, width - width // 4]
        self.layer = nn.Conv2d(width // 4, width // 4, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        changed, kept = x.split(self.parts, 1)
        return torch.cat([self.layer(changed), kept], 1)


def fasternet() -> Built:
    """Partial convolutions and two of 1×1."""
    layers: list[nn.Module] = [conv(3, 40, 4, 4, activation=None)]
    width = 40
    for i, count in enumerate((1, 2, 8, 2)):
        if i:
            layers.append(conv(width, 2 * width, 2, 2, activation=None))
            width *= 2
        layers += [
            Residual(Partial(width), conv(width, 2 * width, 1, activation=nn.GELU),
                     nn.Conv2d(2 * width, width, 1, bias=False))
            for _ in range(count)
        ]  # fmt: skip
    return nn.Sequential(*layers, classifier(width)), image(224)


class Star(nn.Module):
    """The product of two projections of a feature map, between depthwise convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = conv(width, width, 7, groups=width, activation=None)
        self.left, self.right = nn.Conv2d(width, 4 * width, 1), nn.Conv2d(width, 4 * width, 1)
        self.down = conv(4 * width, width, 1, activation=None)
        self.last = nn.Conv2d(width, width, 7, padding=3, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = nn.functional.relu6(self.left(y)) * self.right(y)
        return x + self.last(self.down(y))


def starnet() -> Built:
    """Products of projections in four stages."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2, activation=nn.ReLU6)]
    inputs = 32
    for width, count in ((32, 2), (64, 2), (128, 8), (256, 3)):
        layers.append(conv(inputs, width, 3, 2, activation=None))
        layers += [Star(width) for _ in range(count)]
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


def universal() -> Built:
    """Blocks with a depthwise convolution before, between, or in both places."""

    def block(a: int, b: int, before: int, between: int, stride: int, factor: float) -> nn.Module:
        inner = rounded(a * factor)
        body: list[nn.Module] = []
        if before:
            first = 1 if between else stride
            body.append(conv(a, a, before, first, groups=a, activation=None))
        body.append(conv(a, inner, 1))
        if between:
            body.append(conv(inner, inner, between, stride, groups=inner))
        body.append(conv(inner, b, 1, activation=None))
        return Residual(*body) if stride == 1 and a == b else nn.Sequential(*body)

    layers: list[nn.Module] = [conv(3, 32, 3, 2), conv(32, 32, 3, 2), conv(32, 32, 1)]
    layers += [conv(32, 96, 3, 2), conv(96, 64, 1)]
    width = 64
    for step in ((96, 5, 5, 2, 3), (96, 0, 3, 1, 2), (96, 0, 3, 1, 2), (96, 0, 3, 1, 2),
                 (96, 3, 0, 1, 4), (128, 3, 3, 2, 6), (128, 5, 5, 1, 4), (128, 0, 5, 1, 4),
                 (128, 0, 5, 1, 3), (128, 0, 3, 1, 4), (128, 0, 3, 1, 4)):  # fmt: skip
        layers.append(block(width, *step))
        width = step[0]
    return nn.Sequential(*layers, conv(width, 960, 1), classifier(960)), image(224)


def nfnet() -> Built:
    """Residual bottlenecks without normalization, with scaled activations."""

    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.gelu(x) * 1.7

    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2, 1), Scaled(), nn.Conv2d(64, 128, 3, 2, 1)]
    inputs = 128
    for i, (width, count) in enumerate(zip((256, 512, 1024, 1024), (1, 2, 3, 2), strict=True)):
        for j in range(count):
            stride, inner = 2 if i and j == 0 else 1, width // 2
            changes = stride > 1 or inputs != width
            layers.append(Residual(
                Scaled(), nn.Conv2d(inputs, inner, 1), Scaled(),
                nn.Conv2d(inner, inner, 3, stride, 1, groups=inner // 128), Scaled(),
                nn.Conv2d(inner, width, 1), SqueezeExcite(width, width // 2),
                shortcut=nn.Conv2d(inputs, width, 1, stride) if changes else None,
            ))  # fmt: skip
            inputs = width
    return nn.Sequential(*layers, Scaled(), classifier(inputs)), image(192)


def capsules() -> Built:
    """Capsules between which agreement decides in three rounds."""

    class Routing(nn.Module):
        def __init__(self, count: int, classes: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(count, classes, 16, 8) * 0.1)

        def forward(self, x: Tensor) -> Tensor:
            votes = torch.einsum("kcoi,bki->bkco", self.weight, x.flatten(2).transpose(1, 2)
                                 .reshape(1, -1, 8))  # fmt: skip
            scores = torch.zeros_like(votes[..., :1])
            for _ in range(3):
                total = (scores.softmax(2) * votes).sum(1, keepdim=True)
                norm = total.square().sum(-1, keepdim=True)
                total = total * norm.sqrt() / (1 + norm)
                scores = scores + (votes * total).sum(-1, keepdim=True)
            return total.square().sum(-1).sqrt()

    layers = [nn.Conv2d(1, 256, 9), nn.ReLU(), nn.Conv2d(256, 256, 9, 2), Routing(1152, 10)]
    return nn.Sequential(*layers), image(28, channels=1)


_ALEXNET = ((64, 11, 4), None, (192, 5, 1), None, (384, 3, 1), (256, 3, 1), (256, 3, 1), None)
_ZFNET = ((96, 7, 2), None, (256, 5, 2), None, (384, 3, 1), (384, 3, 1), (256, 3, 1), None)
_OVERFEAT = ((96, 11, 4), None, (256, 5, 1), None, (512, 3, 1), (1024, 3, 1), (1024, 3, 1), None)

_DEEP = "He et al., Deep residual learning"
_VGG = "Simonyan and Zisserman, Very deep convolutional networks"

# fmt: off
published("alexnet", "2012-12", "Krizhevsky et al., ImageNet classification", plain, _ALEXNET,
          4096, 6, 224)
published("zfnet", "2013-11", "Zeiler and Fergus, Visualizing convolutional networks", plain,
          _ZFNET, 4096, 6, 224)
published("overfeat", "2013-12", "Sermanet et al., OverFeat", plain, _OVERFEAT, 3072, 4, 224)
published("network_in_network", "2013-12", "Lin et al., Network in network", network_in_network)
published("vgg11", "2014-09", _VGG, vgg, (1, 1, 2, 2, 2))
published("vgg13", "2014-09", _VGG, vgg, (2, 2, 2, 2, 2))
published("vgg16", "2014-09", _VGG, vgg, (2, 2, 3, 3, 3))
published("vgg19", "2014-09", _VGG, vgg, (2, 2, 4, 4, 4))
published("googlenet", "2014-09", "Szegedy et al., Going deeper with convolutions", googlenet,
          False)
published("inception_bn", "2015-02", "Ioffe and Szegedy, Batch normalization", googlenet, True)
published("vgg16_bn", "2015-02", "Ioffe and Szegedy, Batch normalization, in VGG", vgg,
          (2, 2, 3, 3, 3), True)
published("inception_v3", "2015-12", "Szegedy et al., Rethinking the inception architecture",
          inception, False)
published("resnet18", "2015-12", _DEEP, resnet, (2, 2, 2, 2), "basic")
published("resnet34", "2015-12", _DEEP, resnet, (3, 4, 6, 3), "basic")
published("resnet50", "2015-12", _DEEP, resnet, (3, 4, 6, 3))
published("resnet101", "2015-12", _DEEP, resnet, (3, 4, 23, 3))
published("resnet152", "2015-12", _DEEP, resnet, (3, 8, 36, 3))
published("inception_resnet", "2016-02", "Szegedy et al., Inception-v4 and Inception-ResNet",
          inception, True)
published("squeezenet", "2016-02", "Iandola et al., SqueezeNet", squeezenet, False)
published("resnet50_v2", "2016-03", "He et al., Identity mappings", activated_before, (3, 4, 6, 3))
published("resnet101_v2", "2016-03", "He et al., Identity mappings", activated_before,
          (3, 4, 23, 3))
published("wide_resnet16_8", "2016-05", "Zagoruyko and Komodakis, Wide residual networks", wide,
          16, 8)
published("wide_resnet50", "2016-05", "Zagoruyko and Komodakis, Wide residual networks", resnet,
          (3, 4, 6, 3), base=128)
published("densenet121", "2016-08", "Huang et al., Densely connected networks", densenet,
          (6, 12, 24, 16))
published("densenet169", "2016-08", "Huang et al., Densely connected networks", densenet,
          (6, 12, 32, 32))
published("densenet201", "2016-08", "Huang et al., Densely connected networks", densenet,
          (6, 12, 48, 32))
published("squeezenet1_1", "2016-09", "Iandola et al., SqueezeNet 1.1", squeezenet, True)
published("xception", "2016-10", "Chollet, Xception", xception)
published("resnext50", "2016-11", "Xie et al., Aggregated residual transformations", resnet,
          (3, 4, 6, 3), groups=32, base=4)
published("resnext101", "2016-11", "Xie et al., Aggregated residual transformations", resnet,
          (3, 4, 23, 3), groups=32, base=4)
published("mobilenet", "2017-04", "Howard et al., MobileNets", mobilenet_v1, 1.0)
published("mobilenet_half", "2017-04", "Howard et al., MobileNets", mobilenet_v1, 0.5)
published("shufflenet_g2", "2017-07", "Zhang et al., ShuffleNet", shufflenet, 2)
published("shufflenet_g3", "2017-07", "Zhang et al., ShuffleNet", shufflenet, 3)
published("senet50", "2017-09", "Hu et al., Squeeze-and-excitation networks", resnet,
          (3, 4, 6, 3), excited=True)
published("senext50", "2017-09", "Hu et al., Squeeze-and-excitation networks", resnet,
          (3, 4, 6, 3), groups=32, base=4, excited=True)
published("capsules", "2017-10", "Sabour et al., Dynamic routing between capsules", capsules)
published("mobilenet_v2", "2018-01", "Sandler et al., MobileNetV2", mobilenet_v2, 1.0)
published("mobilenet_v2_half", "2018-01", "Sandler et al., MobileNetV2", mobilenet_v2, 0.5)
published("mobilenet_v2_wide", "2018-01", "Sandler et al., MobileNetV2", mobilenet_v2, 1.4)
published("darknet53", "2018-04", "Redmon and Farhadi, YOLOv3", darknet, (1, 2, 8, 8, 4))
published("shufflenet_v2_half", "2018-07", "Ma et al., ShuffleNet V2", shufflenet_v2,
          (48, 96, 192), 1024)
published("shufflenet_v2", "2018-07", "Ma et al., ShuffleNet V2", shufflenet_v2, (116, 232, 464),
          1024)
published("mnasnet", "2018-07", "Tan et al., MnasNet", stages,
          ((16, 1, 1, 3, 1), (24, 3, 3, 3, 2), (40, 3, 3, 5, 2), (80, 3, 6, 5, 2),
           (96, 2, 6, 3, 1), (192, 4, 6, 5, 2), (320, 1, 6, 3, 1)), 32, 1280, nn.ReLU)
published("sknet50", "2019-03", "Li et al., Selective kernel networks", varied, "selective")
published("res2net50", "2019-04", "Gao et al., Res2Net", varied, "scales")
published("vovnet27", "2019-04", "Lee et al., VoVNet", vovnet)
published("mobilenet_v3_small", "2019-05", "Howard et al., Searching for MobileNetV3",
          mobilenet_v3, False)
published("mobilenet_v3_large", "2019-05", "Howard et al., Searching for MobileNetV3",
          mobilenet_v3, True)
published("efficientnet_b0", "2019-05", "Tan and Le, EfficientNet", efficientnet, 1.0, 1.0, 224)
published("efficientnet_b1", "2019-05", "Tan and Le, EfficientNet", efficientnet, 1.0, 1.1, 240)
published("efficientnet_b2", "2019-05", "Tan and Le, EfficientNet", efficientnet, 1.1, 1.2, 260)
published("efficientnet_b3", "2019-05", "Tan and Le, EfficientNet", efficientnet, 1.2, 1.4, 300)
published("mixnet", "2019-07", "Tan and Le, MixConv", mixnet)
published("ghostnet", "2019-11", "Han et al., GhostNet", ghostnet)
published("regnet_x_400", "2020-03", "Radosavovic et al., Designing network design spaces", regnet,
          (32, 64, 160, 400), (1, 2, 7, 12), 16, False)
published("regnet_y_400", "2020-03", "Radosavovic et al., Designing network design spaces", regnet,
          (48, 104, 208, 440), (1, 3, 6, 6), 8, True)
published("regnet_x_1600", "2020-03", "Radosavovic et al., Designing network design spaces",
          regnet, (72, 168, 408, 912), (2, 4, 10, 2), 24, False)
published("resnest50", "2020-04", "Zhang et al., ResNeSt", varied, "radix")
published("repvgg_a0", "2021-01", "Ding et al., RepVGG", repvgg, (48, 96, 192, 1280),
          (2, 4, 14, 1))
published("repvgg_b0", "2021-01", "Ding et al., RepVGG", repvgg, (64, 128, 256, 1280),
          (4, 6, 16, 1))
published("nfnet", "2021-02", "Brock et al., Networks without normalization", nfnet)
published("efficientnet_v2_s", "2021-04", "Tan and Le, EfficientNetV2", efficientnet_v2)
published("convmixer", "2022-01", "Trockman and Kolter, Patches are all you need", convmixer, 384,
          12, 9, 7)
published("convnext_atto", "2022-01", "Liu et al., A ConvNet for the 2020s, in timm", convnext,
          (40, 80, 160, 320), (2, 2, 6, 2))
published("convnext_tiny", "2022-01", "Liu et al., A ConvNet for the 2020s", convnext,
          (96, 192, 384, 768), (3, 3, 9, 3))
published("replknet", "2022-03", "Ding et al., Scaling up kernels", convnext, (64, 128, 256, 512),
          (2, 2, 6, 2), kernel=31)
published("mobileone_s0", "2022-06", "Vasu et al., MobileOne", mobileone)
published("convnext_v2_nano", "2023-01", "Woo et al., ConvNeXt V2", convnext, (80, 160, 320, 640),
          (2, 2, 8, 2), "response")
published("fasternet_t0", "2023-03", "Chen et al., Run, don't walk", fasternet)
published("inceptionnext", "2023-03", "Yu et al., InceptionNeXt", convnext, (96, 192, 384, 768),
          (3, 3, 9, 3), "inception")
published("starnet_s2", "2024-03", "Ma et al., Rewrite the stars", starnet)
published("mobilenet_v4_small", "2024-04", "Qin et al., MobileNetV4", universal)
