"""Transformers for images, and networks between transformers and convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .layers import (
    Attention,
    Block,
    First,
    LayerNorm2d,
    Mean,
    Patches,
    Residual,
    ToChannelsFirst,
    ToChannelsLast,
    Transposed,
    classifier,
    conv,
    image,
    inverted,
    mlp,
)
from .registry import network


@network("vision transformers")
def patches() -> tuple[nn.Module, Tensor]:
    """A transformer over patches of an image."""
    blocks = [Block(384, 6) for _ in range(8)]
    return nn.Sequential(
        Patches(224, 16, 384), *blocks, nn.LayerNorm(384), First(), nn.Linear(384, 1000)
    ), image(224)


@network("vision transformers")
def fine_patches() -> tuple[nn.Module, Tensor]:
    """A narrow transformer over many small patches."""
    blocks = [Block(128, 4) for _ in range(6)]
    return nn.Sequential(
        Patches(224, 8, 128, token=False), *blocks, nn.LayerNorm(128), Mean(), nn.Linear(128, 100)
    ), image(224)


class Windows(nn.Module):
    """Attention within windows, which may be shifted, with a bias for each pair of places."""

    def __init__(self, width: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.projections = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        places = window * window
        self.bias = nn.Parameter(torch.randn(heads, places, places) * 0.02)
        if shift:
            region = torch.zeros(size, size)
            for i, rows in enumerate((slice(-window), slice(-window, -shift), slice(-shift, None))):
                for j, columns in enumerate(
                    (slice(-window), slice(-window, -shift), slice(-shift, None))
                ):
                    region[rows, columns] = 3 * i + j
            parts = region.view(size // window, window, size // window, window)
            parts = parts.transpose(1, 2).reshape(-1, places)
            apart = parts[:, None, :] != parts[:, :, None]
            self.register_buffer("mask", apart.float()[:, None] * -100.0)

    def forward(self, x: Tensor) -> Tensor:
        _, height, width, channels = x.shape
        w = self.window
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(height // w, w, width // w, w, channels).transpose(1, 2)
        x = x.reshape(-1, w * w, channels)
        parts = self.projections(x).view(-1, w * w, 3, self.heads, channels // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query * (channels // self.heads) ** -0.5 @ key.transpose(-1, -2) + self.bias
        if self.shift:
            scores = scores + self.mask
        x = (scores.softmax(-1) @ value).transpose(1, 2).reshape(-1, w * w, channels)
        x = self.out(x).view(height // w, width // w, w, w, channels).transpose(1, 2)
        x = x.reshape(1, height, width, channels)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        return x


def windowed(width: int, heads: int, size: int, window: int, shift: int) -> nn.Sequential:
    """A block of attention within windows."""
    return nn.Sequential(
        Residual(nn.LayerNorm(width), Windows(width, heads, size, window, shift)),
        Residual(nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.GELU)),
    )


class Merge(nn.Module):
    """Four neighbours joined into one place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduce(self.norm(torch.cat(parts, -1)))


def shifted(width: int, counts: list[int], heads: list[int], size: int, window: int):
    """A hierarchy of windowed attention."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4), ToChannelsLast(), nn.LayerNorm(width)]
    place = size // 4
    for i, (count, h) in enumerate(zip(counts, heads, strict=True)):
        if i:
            layers.append(Merge(width))
            width, place = 2 * width, place // 2
        shift = window // 2 if place > window else 0
        layers += [windowed(width, h, place, window, shift * (j % 2)) for j in range(count)]
    return nn.Sequential(*layers, nn.LayerNorm(width), ToChannelsFirst(), classifier(width))


@network("vision transformers")
def shifted_windows() -> tuple[nn.Module, Tensor]:
    """Attention within shifted windows, in four stages."""
    return shifted(64, [2, 2, 4, 2], [2, 4, 8, 16], 224, 7), image(224)


@network("vision transformers")
def mixer() -> tuple[nn.Module, Tensor]:
    """Linear layers over places and channels in turn."""

    def block(places: int, width: int) -> nn.Sequential:
        return nn.Sequential(
            Residual(nn.LayerNorm(width),
                     Transposed(mlp(places, 2 * places, places, activation=nn.GELU))),
            Residual(nn.LayerNorm(width), mlp(width, 3 * width, width, activation=nn.GELU)),
        )  # fmt: skip

    blocks = [block(196, 384) for _ in range(8)]
    return nn.Sequential(
        Patches(224, 16, 384, token=False), *blocks, nn.LayerNorm(384), Mean(),
        nn.Linear(384, 1000),
    ), image(224)  # fmt: skip


class Unfolded(nn.Module):
    """Transformer blocks over the same place of all patches of a feature map."""

    def __init__(self, channels: int, width: int, count: int, patch: int = 2) -> None:
        super().__init__()
        self.patch = patch
        self.local = nn.Sequential(conv(channels, channels, activation=nn.SiLU),
                                   nn.Conv2d(channels, width, 1))  # fmt: skip
        self.blocks = nn.Sequential(
            *(Block(width, 4, 2 * width, activation=nn.SiLU) for _ in range(count)),
            nn.LayerNorm(width),
        )
        self.project = conv(width, channels, 1, activation=nn.SiLU)
        self.fuse = conv(2 * channels, channels, activation=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        y, p = self.local(x), self.patch
        _, c, h, w = y.shape
        y = y.view(c, h // p, p, w // p, p).permute(2, 4, 1, 3, 0).reshape(p * p, -1, c)
        y = self.blocks(y)
        y = y.view(p, p, h // p, w // p, c).permute(4, 2, 0, 3, 1).reshape(1, c, h, w)
        return self.fuse(torch.cat([x, self.project(y)], 1))


@network("vision transformers")
def convolution_and_attention() -> tuple[nn.Module, Tensor]:
    """Inverted residual blocks, then transformer blocks over unfolded patches."""
    silu = {"expansion": 4, "activation": nn.SiLU}
    return nn.Sequential(
        conv(3, 16, 3, 2, activation=nn.SiLU), inverted(16, 32, **silu),
        inverted(32, 64, 2, **silu), inverted(64, 64, **silu), inverted(64, 96, 2, **silu),
        Unfolded(96, 144, 2), inverted(96, 128, 2, **silu), Unfolded(128, 192, 4),
        inverted(128, 160, 2, **silu), Unfolded(160, 240, 3),
        conv(160, 640, 1, activation=nn.SiLU), classifier(640),
    ), image(256)  # fmt: skip


class Reduced(nn.Module):
    """Attention to a feature map that a convolution has shrunk."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.attention, self.norm = Attention(width, heads), nn.LayerNorm(width)
        self.shrink = nn.Conv2d(width, width, ratio, ratio) if ratio > 1 else nn.Identity()
        self.norm2 = nn.LayerNorm(width)
        self.expand, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mix = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[2:]
        places = self.norm(x.flatten(2).transpose(1, 2))
        grid = places.transpose(1, 2).unflatten(2, (h, w))
        small = self.shrink(grid).flatten(2).transpose(1, 2)
        y = x.flatten(2).transpose(1, 2) + self.attention(places, small)
        wide = self.expand(self.norm2(y)).transpose(1, 2).unflatten(2, (h, w))
        wide = nn.functional.gelu(self.mix(wide)).flatten(2).transpose(1, 2)
        return (y + self.narrow(wide)).transpose(1, 2).unflatten(2, (h, w))


@network("vision transformers")
def pyramid_attention() -> tuple[nn.Module, Tensor]:
    """Attention to shrunken feature maps, in stages, for segmentation."""
    layers: list[nn.Module] = []
    inputs, plan = 3, [(32, 7, 4, 1, 8), (64, 3, 2, 2, 4), (160, 3, 2, 5, 2), (256, 3, 2, 8, 1)]
    for width, kernel, stride, heads, ratio in plan:
        layers += [nn.Conv2d(inputs, width, kernel, stride, kernel // 2), LayerNorm2d(width)]
        layers += [Reduced(width, heads, ratio) for _ in range(2)]
        inputs = width
    return nn.Sequential(*layers, nn.Conv2d(inputs, 150, 1)), image(256)


class Pooled(nn.Module):
    """The difference between a mean of neighbours and the place itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x) - x


@network("vision transformers")
def pooling_mixer() -> tuple[nn.Module, Tensor]:
    """Blocks whose places are mixed by pooling alone."""
    layers: list[nn.Module] = []
    inputs = 3
    for width, kernel, stride, count in [(64, 7, 4, 2), (128, 3, 2, 2), (320, 3, 2, 4)]:
        layers.append(nn.Conv2d(inputs, width, kernel, stride, kernel // 2))
        for _ in range(count):
            layers.append(Residual(nn.GroupNorm(1, width), Pooled()))
            wide = [nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)]
            layers.append(Residual(nn.GroupNorm(1, width), *wide))
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


@network("vision transformers")
def modern_convolutions() -> tuple[nn.Module, Tensor]:
    """Depthwise convolutions of 7×7, with the channels last between them."""

    def block(width: int) -> Residual:
        return Residual(
            nn.Conv2d(width, width, 7, padding=3, groups=width), ToChannelsLast(),
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
            nn.Linear(4 * width, width), ToChannelsFirst(),
        )  # fmt: skip

    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 4), LayerNorm2d(64)]
    width = 64
    for i, count in enumerate([2, 2, 5, 2]):
        if i:
            layers += [LayerNorm2d(width), nn.Conv2d(width, 2 * width, 2, 2)]
            width *= 2
        layers += [block(width) for _ in range(count)]
    return nn.Sequential(*layers, classifier(width)), image(224)
