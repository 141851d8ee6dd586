"""Small networks for images on telephones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .layers import Branches, Residual, SqueezeExcite, classifier, conv, image, inverted
from .registry import network


def separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A depthwise convolution and one of 1×1."""
    return nn.Sequential(
        conv(inputs, inputs, 3, stride, groups=inputs), conv(inputs, outputs, 1)
    )  # fmt: skip


@network("mobile")
def depthwise() -> tuple[nn.Module, Tensor]:
    """Depthwise separable convolutions, one after the other."""
    widths = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    widths += [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]
    body = [separable(*each) for each in widths]
    return nn.Sequential(conv(3, 32, 3, 2), *body, classifier(1024)), image(224)


@network("mobile")
def inverted_residuals() -> tuple[nn.Module, Tensor]:
    """Inverted residual blocks with ReLU6, on a wide image."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2, activation=nn.ReLU6)]
    width = 24
    for outputs, stride, count in [(24, 1, 1), (40, 2, 3), (64, 2, 3), (128, 2, 4), (224, 2, 3)]:
        for i in range(count):
            layers.append(inverted(width, outputs, stride if i == 0 else 1))
            width = outputs
    layers += [conv(width, 1280, 1, activation=nn.ReLU6), classifier(1280)]
    return nn.Sequential(*layers), image(192, 256)


@network("mobile")
def squeezed_excitation() -> tuple[nn.Module, Tensor]:
    """Inverted residual blocks with squeeze-and-excitation, SiLU and kernels of 5×5."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2, activation=nn.SiLU)]
    width = 32
    plan = [(16, 1, 1, 3), (24, 2, 2, 3), (48, 2, 3, 5), (96, 2, 4, 3), (136, 1, 3, 5)]
    for outputs, stride, count, kernel in [*plan, (232, 2, 4, 5)]:
        for i in range(count):
            first = stride if i == 0 else 1
            layers.append(inverted(width, outputs, first, 6, kernel, width // 4 or 4, nn.SiLU))
            width = outputs
    layers += [conv(width, 1280, 1, activation=nn.SiLU), classifier(1280)]
    return nn.Sequential(*layers), image(240)


@network("mobile")
def hard_swish() -> tuple[nn.Module, Tensor]:
    """Inverted residual blocks with hard activations and gates."""
    layers: list[nn.Module] = [conv(3, 16, 3, 2, activation=nn.Hardswish)]
    width = 16
    plan = [(16, 2, 1, 3, 16), (24, 2, 4.5, 3, 0), (24, 1, 3.7, 3, 0), (40, 2, 4, 5, 24)]
    plan += [(40, 1, 6, 5, 64), (48, 1, 3, 5, 32), (96, 2, 6, 5, 72), (96, 1, 6, 5, 144)]
    for outputs, stride, expansion, kernel, reduced in plan:
        activation = nn.ReLU if width < 40 else nn.Hardswish
        layers.append(inverted(width, outputs, stride, expansion, kernel, reduced, activation,
                               nn.Hardsigmoid))  # fmt: skip
        width = outputs
    layers += [conv(width, 576, 1, activation=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    layers += [nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000)]
    return nn.Sequential(*layers), image(224)


class Ghost(nn.Module):
    """Channels of which half are cheap copies of the others."""

    def __init__(self, inputs: int, outputs: int, activated: bool = True) -> None:
        super().__init__()
        activation = nn.ReLU if activated else None
        half = outputs // 2
        self.primary = conv(inputs, half, 1, activation=activation)
        self.cheap = conv(half, outputs - half, 3, groups=half, activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        first = self.primary(x)
        return torch.cat([first, self.cheap(first)], 1)


def ghost_block(inputs: int, width: int, outputs: int, kernel: int, stride: int, excited: bool):
    """A residual block of ghost layers."""
    body: list[nn.Module] = [Ghost(inputs, width)]
    if stride > 1:
        body.append(conv(width, width, kernel, stride, groups=width, activation=None))
    if excited:
        body.append(SqueezeExcite(width, width // 4, gate=nn.Hardsigmoid))
    body.append(Ghost(width, outputs, activated=False))
    shortcut = None
    if stride > 1 or inputs != outputs:
        shortcut = nn.Sequential(
            conv(inputs, inputs, kernel, stride, groups=inputs, activation=None),
            conv(inputs, outputs, 1, activation=None),
        )
    return Residual(*body, shortcut=shortcut)


@network("mobile")
def ghost() -> tuple[nn.Module, Tensor]:
    """Ghost blocks of varied width."""
    plan = [(16, 16, 3, 1, False), (48, 24, 3, 2, False), (72, 24, 3, 1, False)]
    plan += [(72, 40, 5, 2, True), (120, 40, 5, 1, True), (240, 80, 3, 2, False)]
    plan += [(184, 80, 3, 1, False)] * 3 + [(480, 112, 3, 1, True), (672, 160, 5, 2, True)]
    plan += [(960, 160, 5, 1, True)] * 3
    layers: list[nn.Module] = [conv(3, 16, 3, 2)]
    width = 16
    for inner, outputs, kernel, stride, excited in plan:
        layers.append(ghost_block(width, inner, outputs, kernel, stride, excited))
        width = outputs
    return nn.Sequential(*layers, conv(width, 960, 1), classifier(960)), image(224)


class Shuffle(nn.Module):
    """Channels of all groups in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)


def shuffle_unit(inputs: int, outputs: int, groups: int, stride: int = 1) -> nn.Module:
    """A residual block of grouped convolutions; where it has a stride, both parts are kept."""
    added = outputs - inputs if stride > 1 else outputs
    inner = outputs // 4
    body = [
        conv(inputs, inner, 1, groups=groups if inputs > 24 else 1),
        Shuffle(groups),
        conv(inner, inner, 3, stride, groups=inner, activation=None),
        conv(inner, added, 1, groups=groups, activation=None),
    ]
    if stride == 1:
        return Residual(*body, after=nn.ReLU())
    return nn.Sequential(Branches(nn.AvgPool2d(3, 2, 1), nn.Sequential(*body)), nn.ReLU())


@network("mobile")
def shuffled_groups() -> tuple[nn.Module, Tensor]:
    """Grouped convolutions, with the channels of the groups shuffled."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    width = 24
    for outputs, count in [(240, 4), (480, 8), (960, 4)]:
        layers.append(shuffle_unit(width, outputs, 3, 2))
        layers += [shuffle_unit(outputs, outputs, 3) for _ in range(count - 1)]
        width = outputs
    return nn.Sequential(*layers, classifier(width)), image(224)


class Split(nn.Module):
    """Half of the channels as they are and half through a body, then shuffled."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.shuffle = body, Shuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, 1)
        return self.shuffle(torch.cat([kept, self.body(changed)], 1))


def split_unit(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    """A unit whose channels are split in two."""
    half = outputs // 2
    first = half if stride == 1 else inputs
    body = nn.Sequential(
        conv(first, half, 1),
        conv(half, half, 3, stride, groups=half, activation=None),
        conv(half, half, 1),
    )
    if stride == 1:
        return Split(body)
    short = nn.Sequential(
        conv(inputs, inputs, 3, stride, groups=inputs, activation=None), conv(inputs, half, 1)
    )
    return nn.Sequential(Branches(short, body), Shuffle(2))


@network("mobile")
def split_channels() -> tuple[nn.Module, Tensor]:
    """Units that split, join and shuffle their channels."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    width = 24
    for outputs, count in [(116, 4), (232, 8), (464, 4)]:
        layers.append(split_unit(width, outputs, 2))
        layers += [split_unit(outputs, outputs) for _ in range(count - 1)]
        width = outputs
    return nn.Sequential(*layers, conv(width, 1024, 1), classifier(1024)), image(160)
