"""Layers that networks of several domains share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


def image(size: int = 224, width: int | None = None, channels: int = 3) -> Tensor:
    """A batch of one random image."""
    return torch.randn(1, channels, size, width or size)


def tokens(length: int, vocabulary: int) -> Tensor:
    """A batch of one text of random tokens."""
    return torch.randint(0, vocabulary, (1, length))


def conv(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int] = 3,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    activation: Activation | None = nn.ReLU,
) -> nn.Sequential:
    """A convolution that keeps the size but for its stride, a normalization, an activation."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = ((height - 1) * dilation // 2, (width - 1) * dilation // 2)
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


def conv1d(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    activation: Activation | None = nn.ReLU,
) -> nn.Sequential:
    """The one-dimensional counterpart of :func:`conv`."""
    padding = (kernel - 1) * dilation // 2
    layers: list[nn.Module] = [
        nn.Conv1d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False),
        nn.BatchNorm1d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


def classifier(channels: int, classes: int = 1000) -> nn.Sequential:
    """Scores of classes from the mean of a feature map."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def mlp(*widths: int, activation: Activation = nn.ReLU) -> nn.Sequential:
    """Linear layers of some widths, with an activation between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


class Residual(nn.Module):
    """The sum of a body's result and its input, which a shortcut may change."""

    def __init__(
        self,
        *body: nn.Module,
        shortcut: nn.Module | None = None,
        after: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)
        self.shortcut = shortcut or nn.Identity()
        self.after = after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.shortcut(x) + self.body(x))


class Branches(nn.Module):
    """The results of several branches, one after the other in the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class SqueezeExcite(nn.Module):
    """Channels scaled by weights that depend on their means."""

    def __init__(
        self, channels: int, reduced: int, activation: Activation = nn.ReLU,
        gate: Activation = nn.Sigmoid,
    ) -> None:  # fmt: skip
        super().__init__()
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, reduced, 1),
            activation(),
            nn.Conv2d(reduced, channels, 1),
            gate(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weights(x)


class ToChannelsLast(nn.Module):
    """A feature map with its channels moved to the end."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1)


class ToChannelsFirst(nn.Module):
    """A feature map with its channels moved back to the front."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 3, 1, 2)


class Transposed(nn.Module):
    """A body that sees the last two dimensions swapped."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.transpose(1, 2)).transpose(1, 2)


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization over the channels of a feature map."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(nn.Module):
    """Normalization by the root of the mean square, as decoders write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def bottleneck(
    inputs: int,
    width: int,
    outputs: int,
    stride: int = 1,
    groups: int = 1,
    reduced: int = 0,
    kernel: int = 3,
) -> Residual:
    """The residual block of three convolutions, with squeeze-and-excitation where reduced."""
    excited = [SqueezeExcite(outputs, reduced)] if reduced else []
    changes = stride > 1 or inputs != outputs
    return Residual(
        conv(inputs, width, 1),
        conv(width, width, kernel, stride, groups),
        conv(width, outputs, 1, activation=None),
        *excited,
        shortcut=conv(inputs, outputs, 1, stride, activation=None) if changes else None,
        after=nn.ReLU(),
    )


def basic(inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> Residual:
    """The residual block of two convolutions."""
    changes = stride > 1 or inputs != outputs
    return Residual(
        conv(inputs, outputs, 3, stride, dilation=dilation),
        conv(outputs, outputs, 3, dilation=dilation, activation=None),
        shortcut=conv(inputs, outputs, 1, stride, activation=None) if changes else None,
        after=nn.ReLU(),
    )


def inverted(
    inputs: int,
    outputs: int,
    stride: int = 1,
    expansion: float = 6,
    kernel: int = 3,
    reduced: int = 0,
    activation: Activation = nn.ReLU6,
    gate: Activation = nn.Sigmoid,
) -> nn.Module:
    """The inverted residual block: wide, depthwise, narrow again."""
    width = round(inputs * expansion)
    layers: list[nn.Module] = []
    if width != inputs:
        layers.append(conv(inputs, width, 1, activation=activation))
    layers.append(conv(width, width, kernel, stride, groups=width, activation=activation))
    if reduced:
        inner = activation if gate is nn.Sigmoid else nn.ReLU
        layers.append(SqueezeExcite(width, reduced, inner, gate))
    layers.append(conv(width, outputs, 1, activation=None))
    same = stride == 1 and inputs == outputs
    return Residual(*layers) if same else nn.Sequential(*layers)


class Attention(nn.Module):
    """Attention of several heads over a sequence, to itself or to another sequence."""

    def __init__(
        self,
        width: int,
        heads: int,
        causal: bool = False,
        key_heads: int | None = None,
        bias: bool = True,
        head_width: int | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.key_heads = key_heads or heads
        self.head_width = head_width or width // heads
        self.query = nn.Linear(width, heads * self.head_width, bias)
        self.key = nn.Linear(width, self.key_heads * self.head_width, bias)
        self.value = nn.Linear(width, self.key_heads * self.head_width, bias)
        self.out = nn.Linear(heads * self.head_width, width, bias)

    def split(self, x: Tensor, heads: int) -> Tensor:
        """The heads of a projection, moved before the positions."""
        return x.unflatten(-1, (heads, self.head_width)).transpose(1, 2)

    def forward(self, x: Tensor, other: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        source = x if other is None else other
        query = self.split(self.query(x), self.heads)
        key = self.split(self.key(source), self.key_heads)
        value = self.split(self.value(source), self.key_heads)
        if self.key_heads != self.heads:
            key = key.repeat_interleave(self.heads // self.key_heads, 1)
            value = value.repeat_interleave(self.heads // self.key_heads, 1)
        if bias is None:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        else:
            scores = query @ key.transpose(-1, -2) * self.head_width**-0.5
            mixed = (scores + bias).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A transformer's block, with its normalizations before or after the layers."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int | None = None,
        causal: bool = False,
        before: bool = True,
        activation: Activation = nn.GELU,
    ) -> None:
        super().__init__()
        self.before = before
        self.attention = Attention(width, heads, causal)
        self.forth = mlp(width, inner or 4 * width, width, activation=activation)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        if self.before:
            x = x + self.attention(self.norm1(x))
            return x + self.forth(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.forth(x))


class Positions(nn.Module):
    """A sequence with learned positions added."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, length, width) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class Patches(nn.Module):
    """A sequence of embedded patches of an image, with a token for the class in front."""

    def __init__(
        self, size: int, patch: int, width: int, token: bool = True, channels: int = 3
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02) if token else None
        self.positions = Positions((size // patch) ** 2 + token, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token, x], 1)
        return self.positions(x)


class First(nn.Module):
    """The first position of a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class Mean(nn.Module):
    """The mean over the positions of a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)
