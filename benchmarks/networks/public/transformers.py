"""Transformers and their relatives for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..layers import (
    Attention,
    Block,
    First,
    LayerNorm2d,
    Mean,
    Patches,
    Residual,
    SqueezeExcite,
    ToChannelsFirst,
    ToChannelsLast,
    Transposed,
    classifier,
    conv,
    image,
    inverted,
    mlp,
)
from ..vision import Pooled, Reduced, Unfolded, shifted
from .registry import published

Built = tuple[nn.Module, Tensor]


def vit(width: int, depth: int, heads: int, patch: int = 16, size: int = 224) -> Built:
    """A transformer over patches of an image."""
    blocks = [Block(width, heads) for _ in range(depth)]
    return nn.Sequential(
        Patches(size, patch, width), *blocks, nn.LayerNorm(width), First(), nn.Linear(width, 1000)
    ), image(size)


class Scaled(nn.Module):
    """Channels scaled by learned weights, which begin small."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def dinov2(width: int, depth: int, heads: int) -> Built:
    """A transformer over patches of 14 pixels, with scaled residuals."""
    blocks = [
        nn.Sequential(
            Residual(nn.LayerNorm(width), Attention(width, heads), Scaled(width)),
            Residual(nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.GELU),
                     Scaled(width)),
        )
        for _ in range(depth)
    ]  # fmt: skip
    return nn.Sequential(Patches(224, 14, width), *blocks, nn.LayerNorm(width), First()), image(224)


def mixer(width: int, depth: int, kind: str, patch: int = 16) -> Built:
    """Linear layers over places and channels in turn."""
    places = (224 // patch) ** 2

    def mixing() -> nn.Module:
        if kind == "linear":
            return Transposed(nn.Linear(places, places))
        return Transposed(mlp(places, width // 2, places, activation=nn.GELU))

    blocks = [
        nn.Sequential(
            Residual(nn.LayerNorm(width), mixing()),
            Residual(nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.GELU)),
        )
        for _ in range(depth)
    ]
    return nn.Sequential(
        Patches(224, patch, width, token=False), *blocks, nn.LayerNorm(width), Mean(),
        nn.Linear(width, 1000),
    ), image(224)  # fmt: skip


class SpatialGate(nn.Module):
    """Half of the channels, scaled by the others mixed over the places."""

    def __init__(self, width: int, places: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width // 2), nn.Linear(places, places)

    def forward(self, x: Tensor) -> Tensor:
        kept, gate = x.chunk(2, -1)
        return kept * self.mix(self.norm(gate).transpose(1, 2)).transpose(1, 2)


def gmlp(width: int, depth: int) -> Built:
    """Linear layers with spatial gates."""
    blocks = [
        Residual(nn.LayerNorm(width), nn.Linear(width, 6 * width), nn.GELU(),
                 SpatialGate(6 * width, 196), nn.Linear(3 * width, width))
        for _ in range(depth)
    ]  # fmt: skip
    return nn.Sequential(
        Patches(224, 16, width, token=False), *blocks, nn.LayerNorm(width), Mean(),
        nn.Linear(width, 1000),
    ), image(224)  # fmt: skip


def swin(width: int, counts: list[int], heads: list[int]) -> Built:
    """Attention within shifted windows, in four stages."""
    return shifted(width, counts, heads, 224, 7), image(224)


def pyramid(widths: Sequence[int], counts: Sequence[int], heads: Sequence[int]) -> Built:
    """Attention to shrunken feature maps, in stages."""
    layers: list[nn.Module] = []
    inputs = 3
    for i, (width, count, h) in enumerate(zip(widths, counts, heads, strict=True)):
        kernel, stride = (7, 4) if i == 0 else (3, 2)
        layers += [nn.Conv2d(inputs, width, kernel, stride, kernel // 2), LayerNorm2d(width)]
        layers += [Reduced(width, h, 8 >> i) for _ in range(count)]
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(256)


def poolformer(widths: Sequence[int], counts: Sequence[int]) -> Built:
    """Blocks whose places are mixed by pooling alone."""
    layers: list[nn.Module] = []
    inputs = 3
    for i, (width, count) in enumerate(zip(widths, counts, strict=True)):
        kernel, stride = (7, 4) if i == 0 else (3, 2)
        layers.append(nn.Conv2d(inputs, width, kernel, stride, kernel // 2))
        for _ in range(count):
            wide = [nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)]
            layers.append(Residual(nn.GroupNorm(1, width), Pooled()))
            layers.append(Residual(nn.GroupNorm(1, width), *wide))
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


class Flat(nn.Module):
    """Transformer blocks over the places of a feature map."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(x.flatten(2).transpose(1, 2))
        return y.transpose(1, 2).unflatten(2, x.shape[2:])


def convolutions_first(
    widths: Sequence[int], counts: Sequence[int], heads: int, size: int = 224
) -> Built:
    """Inverted residual blocks in two stages, then attention in two."""
    layers: list[nn.Module] = [conv(3, widths[0], 3, 2, activation=nn.GELU)]
    layers.append(conv(widths[0], widths[0], activation=nn.GELU))
    inputs = widths[0]
    for i, (width, count) in enumerate(zip(widths, counts, strict=True)):
        for j in range(count):
            stride = 2 if j == 0 else 1
            if i < 2:
                layers.append(inverted(inputs, width, stride, 4, 3, width // 4, nn.GELU))
            else:
                if j == 0:
                    layers.append(nn.Conv2d(inputs, width, 3, 2, 1))
                layers.append(Flat(Block(width, heads * (i - 1))))
            inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(size)


def mobilevit(widths: Sequence[int], inner: Sequence[int]) -> Built:
    """Inverted residual blocks, then transformer blocks over unfolded patches."""
    a, b, c, d, e = widths

    def step(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
        return inverted(inputs, outputs, stride, 4, activation=nn.SiLU)

    return nn.Sequential(
        conv(3, 16, 3, 2, activation=nn.SiLU), step(16, a), step(a, b, 2), step(b, b), step(b, b),
        step(b, c, 2), Unfolded(c, inner[0], 2), step(c, d, 2), Unfolded(d, inner[1], 4),
        step(d, e, 2), Unfolded(e, inner[2], 3), conv(e, 4 * e, 1, activation=nn.SiLU),
        classifier(4 * e),
    ), image(256)  # fmt: skip


class Separable(nn.Module):
    """Attention to one context of the whole, whose cost grows with the places alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.projections, self.out = nn.Conv2d(width, 1 + 2 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores, key, value = self.projections(x).split([1, self.width, self.width], 1)
        context = (key * scores.flatten(2).softmax(-1).view_as(scores)).sum((2, 3), keepdim=True)
        return self.out(F.relu(value) * context)


def mobilevit_v2() -> Built:
    """Inverted residual blocks and separable attention."""

    def step(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
        return inverted(inputs, outputs, stride, 2, activation=nn.SiLU)

    def attention(channels: int, width: int, count: int) -> nn.Sequential:
        blocks = [
            nn.Sequential(
                Residual(nn.GroupNorm(1, width), Separable(width)),
                Residual(nn.GroupNorm(1, width), nn.Conv2d(width, 2 * width, 1), nn.SiLU(),
                         nn.Conv2d(2 * width, width, 1)),
            )
            for _ in range(count)
        ]  # fmt: skip
        return nn.Sequential(
            conv(channels, channels, groups=channels, activation=nn.SiLU),
            nn.Conv2d(channels, width, 1), *blocks, conv(width, channels, 1, activation=None),
        )  # fmt: skip

    return nn.Sequential(
        conv(3, 32, 3, 2, activation=nn.SiLU), step(32, 64), step(64, 128, 2), step(128, 128),
        step(128, 256, 2), attention(256, 128, 2), step(256, 384, 2), attention(384, 192, 4),
        step(384, 512, 2), attention(512, 256, 3), classifier(512),
    ), image(256)  # fmt: skip


class Grid(nn.Module):
    """Transformer blocks within windows of a feature map, or over a grid of places."""

    def __init__(self, block: nn.Module, window: int, grid: bool) -> None:
        super().__init__()
        self.block, self.window, self.grid = block, window, grid

    def forward(self, x: Tensor) -> Tensor:
        _, c, h, w = x.shape
        n = self.window
        if self.grid:
            x = x.view(c, n, h // n, n, w // n).permute(2, 4, 1, 3, 0).reshape(-1, n * n, c)
            x = self.block(x).view(h // n, w // n, n, n, c).permute(4, 2, 0, 3, 1)
        else:
            x = x.view(c, h // n, n, w // n, n).permute(1, 3, 2, 4, 0).reshape(-1, n * n, c)
            x = self.block(x).view(h // n, w // n, n, n, c).permute(4, 0, 2, 1, 3)
        return x.reshape(1, c, h, w)


def maxvit(widths: Sequence[int], counts: Sequence[int]) -> Built:
    """Inverted residual blocks, attention within windows, and attention over a grid."""
    layers: list[nn.Module] = [conv(3, 64, 3, 2, activation=nn.GELU), nn.Conv2d(64, 64, 3, 1, 1)]
    inputs = 64
    for width, count in zip(widths, counts, strict=True):
        for j in range(count):
            stride = 2 if j == 0 else 1
            layers.append(inverted(inputs, width, stride, 4, 3, width // 4, nn.GELU))
            heads = width // 32
            layers += [Grid(Block(width, heads), 7, False), Grid(Block(width, heads), 7, True)]
            inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


class Channels(nn.Module):
    """Attention between the channels of a sequence, not its places."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.projections(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 4, 1)
        query, key, value = parts.unbind(0)
        query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
        scores = (query @ key.transpose(-1, -2) * self.temperature).softmax(-1)
        return self.out((scores @ value).flatten(1, 2).transpose(1, 2))


def channels(width: int, depth: int, heads: int) -> Built:
    """Attention between channels, and depthwise convolutions between places."""
    layers: list[nn.Module] = [conv(3, width // 4, 3, 2, activation=nn.GELU)]
    layers += [conv(width // 4, width // 2, 3, 2, activation=nn.GELU)]
    layers += [conv(width // 2, width, 3, 2, activation=nn.GELU), nn.Conv2d(width, width, 3, 2, 1)]
    for _ in range(depth):
        layers.append(Residual(Flat(nn.LayerNorm(width), Channels(width, heads))))
        local = [LayerNorm2d(width), nn.Conv2d(width, width, 3, padding=1, groups=width), nn.GELU()]
        local += [nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding=1, groups=width)]
        layers.append(Residual(*local))
        wide = mlp(width, 4 * width, width, activation=nn.GELU)
        layers.append(Residual(Flat(nn.LayerNorm(width), wide)))
    return nn.Sequential(*layers, classifier(width)), image(224)


def edgenext() -> Built:
    """Depthwise convolutions of growing kernels, and attention between channels."""
    layers: list[nn.Module] = [nn.Conv2d(3, 48, 4, 4), LayerNorm2d(48)]
    inputs = 48
    plan = ((48, 3, 3), (96, 3, 5), (160, 9, 7), (304, 3, 9))
    for i, (width, count, kernel) in enumerate(plan):
        if i:
            layers += [LayerNorm2d(inputs), nn.Conv2d(inputs, width, 2, 2)]
        for j in range(count):
            if i and j == count - 1:
                layers.append(Residual(Flat(nn.LayerNorm(width), Channels(width, 8))))
            else:
                kept = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
                wide = [nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.GELU)]
                layers.append(Residual(kept, ToChannelsLast(), *wide, ToChannelsFirst()))
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(256)


def pooled_then_attention(widths: Sequence[int], counts: Sequence[int]) -> Built:
    """Pooling in the early stages, and attention in the last blocks."""
    half = conv(3, widths[0] // 2, 3, 2)
    layers: list[nn.Module] = [half, conv(widths[0] // 2, widths[0], 3, 2)]
    inputs = widths[0]
    for i, (width, count) in enumerate(zip(widths, counts, strict=True)):
        if i:
            layers.append(conv(inputs, width, 3, 2, activation=None))
        for j in range(count):
            if i == 3 and j == count - 1:
                layers.append(Flat(Block(width, 8)))
                continue
            layers.append(Residual(Pooled()))
            layers.append(Residual(conv(width, 4 * width, 1, activation=nn.GELU),
                                   conv(4 * width, width, 1, activation=None)))  # fmt: skip
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(224)


def reparametrized(
    widths: Sequence[int], counts: Sequence[int], kernel: int, attention: bool
) -> Built:
    """Depthwise convolutions and two of 1×1, as deployed, with attention at the end."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, 2, 1), nn.GELU()]
    layers += [nn.Conv2d(widths[0], widths[0], 3, 2, 1, groups=widths[0]), nn.GELU()]
    inputs = widths[0]
    for i, (width, count) in enumerate(zip(widths, counts, strict=True)):
        if i:
            layers.append(nn.Conv2d(inputs, inputs, kernel, 2, kernel // 2, groups=inputs))
            layers += [nn.Conv2d(inputs, width, 1), nn.GELU()]
        for j in range(count):
            if attention and i == 3:
                layers.append(Flat(Block(width, width // 32, 3 * width)))
                continue
            layers.append(nn.Conv2d(width, width, 3, padding=1, groups=width))
            if not attention and j % 2 == 0:
                layers.append(SqueezeExcite(width, width // 4))
            wide = [nn.Conv2d(width, 3 * width, 1), nn.GELU(), nn.Conv2d(3 * width, width, 1)]
            local = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
            layers.append(Residual(*([local] if attention else []), *wide))
        inputs = width
    return nn.Sequential(*layers, classifier(inputs)), image(256 if attention else 224)


class ReluAttention(nn.Module):
    """Linear attention with ReLU over a feature map and a coarser view of it."""

    def __init__(self, width: int, part: int) -> None:
        super().__init__()
        self.part = part
        self.project = nn.Conv2d(width, 3 * width, 1, bias=False)
        self.coarse = nn.Sequential(
            nn.Conv2d(3 * width, 3 * width, 5, padding=2, groups=3 * width, bias=False),
            nn.Conv2d(3 * width, 3 * width, 1, groups=3 * width // part, bias=False),
        )
        self.out = conv(2 * width, width, 1, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(x)
        both = torch.cat([parts, self.coarse(parts)], 1).flatten(2)
        query, key, value = both.unflatten(1, (-1, 3 * self.part)).chunk(3, 2)
        query, key = F.relu(query), F.relu(key)
        context = value @ key.transpose(-1, -2)
        total = key.sum(-1, keepdim=True).transpose(-1, -2) @ query + 1e-6
        mixed = context @ query / total
        return x + self.out(mixed.flatten(1, 2).unflatten(2, x.shape[2:]))


def efficientvit() -> Built:
    """Inverted residual blocks, and linear attention at two scales."""
    hard = {"activation": nn.Hardswish}
    layers: list[nn.Module] = [conv(3, 16, 3, 2, **hard), inverted(16, 16, 1, 1, **hard)]
    width = 16
    for channels_, count in ((32, 2), (64, 3)):
        for j in range(count):
            layers.append(inverted(width, channels_, 2 if j == 0 else 1, 4, **hard))
            width = channels_
    for channels_, count in ((128, 3), (256, 4)):
        layers.append(inverted(width, channels_, 2, 4, **hard))
        width = channels_
        for _ in range(count):
            layers += [ReluAttention(width, 16), inverted(width, width, 1, 4, **hard)]
    return nn.Sequential(*layers, conv(width, 1536, 1, **hard), classifier(1536)), image(224)


class ClassAttention(nn.Module):
    """The class's token that attends to the places, in two blocks after all others."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.attentions = nn.ModuleList(Attention(width, heads) for _ in range(2))
        self.forths = nn.ModuleList(
            Residual(nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.GELU))
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        token = self.token
        for attention, forth in zip(self.attentions, self.forths, strict=True):
            token = forth(token + attention(token, torch.cat([token, x], 1)))
        return token[:, 0]


def cait(width: int, depth: int, heads: int) -> Built:
    """A transformer with scaled residuals, and attention of the class alone at the end."""
    blocks = [
        nn.Sequential(
            Residual(nn.LayerNorm(width), Attention(width, heads), Scaled(width)),
            Residual(nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.GELU),
                     Scaled(width)),
        )
        for _ in range(depth)
    ]  # fmt: skip
    return nn.Sequential(
        Patches(224, 16, width, token=False), *blocks, ClassAttention(width, heads),
        nn.Linear(width, 1000),
    ), image(224)  # fmt: skip


# fmt: off
published("vit_base_32", "2020-10", "Dosovitskiy et al., An image is worth 16×16 words", vit, 768,
          12, 12, 32)
published("vit_base_16", "2020-10", "Dosovitskiy et al., An image is worth 16×16 words", vit, 768,
          12, 12)
published("deit_tiny", "2020-12", "Touvron et al., Training data-efficient transformers", vit, 192,
          12, 3)
published("deit_small", "2020-12", "Touvron et al., Training data-efficient transformers", vit,
          384, 12, 6)
published("pvt_tiny", "2021-02", "Wang et al., Pyramid vision transformer", pyramid,
          (64, 128, 320, 512), (2, 2, 2, 2), (1, 2, 5, 8))
published("cait_xxs24", "2021-03", "Touvron et al., Going deeper with transformers", cait, 192, 24,
          4)
published("swin_tiny", "2021-03", "Liu et al., Swin transformer", swin, 96, [2, 2, 6, 2],
          [3, 6, 12, 24])
published("swin_small", "2021-03", "Liu et al., Swin transformer", swin, 96, [2, 2, 18, 2],
          [3, 6, 12, 24])
published("mixer_s16", "2021-05", "Tolstikhin et al., MLP-Mixer", mixer, 512, 8, "mlp")
published("mixer_b32", "2021-05", "Tolstikhin et al., MLP-Mixer", mixer, 768, 12, "mlp", 32)
published("resmlp_s12", "2021-05", "Touvron et al., ResMLP", mixer, 384, 12, "linear")
published("gmlp_ti16", "2021-05", "Liu et al., Pay attention to MLPs", gmlp, 128, 30)
published("segformer_b0", "2021-05", "Xie et al., SegFormer", pyramid, (32, 64, 160, 256),
          (2, 2, 2, 2), (1, 2, 5, 8))
published("coatnet_0", "2021-06", "Dai et al., CoAtNet", convolutions_first, (64, 96, 192, 384),
          (2, 2, 5, 2), 6)
published("xcit_tiny", "2021-06", "El-Nouby et al., XCiT", channels, 192, 12, 4)
published("mobilevit_xs", "2021-10", "Mehta and Rastegari, MobileViT", mobilevit,
          (32, 48, 64, 80, 96), (96, 120, 144))
published("mobilevit_s", "2021-10", "Mehta and Rastegari, MobileViT", mobilevit,
          (32, 64, 96, 128, 160), (144, 192, 240))
published("poolformer_s12", "2021-11", "Yu et al., MetaFormer", poolformer, (64, 128, 320, 512),
          (2, 2, 6, 2))
published("maxvit_nano", "2022-04", "Tu et al., MaxViT, narrowed", maxvit, (64, 128, 256, 512),
          (1, 2, 3, 1))
published("efficientvit_b1", "2022-05", "Cai et al., EfficientViT", efficientvit)
published("efficientformer_l1", "2022-06", "Li et al., EfficientFormer", pooled_then_attention,
          (48, 96, 224, 448), (3, 2, 6, 4))
published("mobilevit_v2", "2022-06", "Mehta and Rastegari, Separable self-attention", mobilevit_v2)
published("edgenext_small", "2022-06", "Maaz et al., EdgeNeXt", edgenext)
published("fastvit_t8", "2023-03", "Vasu et al., FastViT", reparametrized, (48, 96, 192, 384),
          (2, 2, 4, 2), 7, True)
published("dinov2_small", "2023-04", "Oquab et al., DINOv2", dinov2, 384, 12, 6)
published("repvit_m1", "2023-07", "Wang et al., RepViT", reparametrized, (48, 96, 192, 384),
          (3, 4, 16, 3), 3, False)
published("dinov3_small", "2025-08", "Siméoni et al., DINOv3", vit, 384, 12, 6, 16, 256)
