"""Small networks that are drawn: what users run in less than a few milliseconds.

They are not among the networks of :data:`~benchmarks.networks.registry.NETWORKS`:
``benchmarks/predictor/loops.py`` learns from them how a network in a loop differs from its layers
alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Random = random.Random
Built = tuple[nn.Module, tuple[Tensor, ...]]


def _dense(draw: Random) -> Built:
    """Linear layers and activations."""
    sizes = [draw.choice([8, 32, 64, 200, 256, 512]) for _ in range(draw.randint(2, 6))]
    kind = draw.choice([nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid])
    layers: list[nn.Module] = []
    for width, out in pairwise(sizes):
        layers += [nn.Linear(width, out), kind()]
        if draw.random() < 0.2:
            layers.append(nn.LayerNorm(out))
    return nn.Sequential(*layers), (torch.randn(draw.choice([1, 4, 16, 64]), sizes[0]),)


def _maps(draw: Random, axes: int) -> Built:
    """Convolutions on feature maps with one to three axes, and a head."""
    convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    normal = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[axes - 1]
    pool = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[axes - 1]
    mean = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[axes - 1]
    channels, width = draw.choice([1, 3, 8]), draw.choice([4, 8, 16, 24])
    read, layers = channels, list[nn.Module]()
    for i in range(draw.randint(2, 4)):
        window = draw.choice([1, 3, 3, 5])
        layers.append(convolution(read, width, window, padding=window // 2))
        layers += [normal(width)] if draw.random() < 0.6 else []
        layers.append(draw.choice([nn.ReLU, nn.Tanh, nn.Hardswish])())
        layers += [pool(2)] if i < 2 else []
        read, width = width, min(2 * width, 64)
    layers += [mean(1), nn.Flatten(), nn.Linear(read, 10)]
    size = draw.choice([[64, 128, 300], [16, 28, 40], [8, 12, 16]][axes - 1])
    return nn.Sequential(*layers), (torch.randn(draw.choice([1, 1, 4]), channels, *[size] * axes),)


class Inverted(nn.Module):
    """Residual blocks of depthwise convolutions, or of grouped ones with shuffled channels."""

    def __init__(self, width: int, blocks: int, wider: int, groups: int) -> None:
        super().__init__()
        inner = width * wider
        self.stem, self.groups = nn.Conv2d(3, width, 3, 2, 1), groups
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
                nn.Conv2d(inner, inner, 3, padding=1, groups=groups or inner, bias=False),
                nn.BatchNorm2d(inner), nn.ReLU6(),
                nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width),
            )
            for _ in range(blocks)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
            if self.groups:
                x = x.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)
        return x.mean((2, 3))


def _inverted(draw: Random) -> Built:
    width, groups = draw.choice([8, 16, 24, 32]), draw.choice([0, 0, 2, 4])
    module = Inverted(width, draw.randint(1, 4), draw.choice([1, 2, 4]), groups)
    return module, (torch.randn(1, 3, *[draw.choice([24, 32, 48, 64])] * 2),)


class Encoder(nn.Module):
    """Transformer blocks."""

    def __init__(self, width: int, heads: int, blocks: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "a": nn.LayerNorm(width),
                    "read": nn.Linear(width, 3 * width),
                    "write": nn.Linear(width, width),
                    "b": nn.LayerNorm(width),
                    "f": nn.Linear(width, 2 * width),
                    "g": nn.Linear(2 * width, width),
                }
            )
            for _ in range(blocks)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            parts = block["read"](block["a"](x)).chunk(3, -1)
            q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in parts)
            found = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            x = x + block["write"](found.transpose(1, 2).flatten(2))
            x = x + block["g"](F.gelu(block["f"](block["b"](x))))
        return x.mean(1)


def _encoder(draw: Random) -> Built:
    heads = draw.choice([2, 4])
    width = heads * draw.choice([16, 24, 32, 64])
    module = Encoder(width, heads, draw.randint(1, 4), causal=draw.random() < 0.4)
    return module, (torch.randn(draw.choice([1, 1, 2]), draw.choice([8, 20, 40, 64]), width),)


class Recurrent(nn.Module):
    """A recurrent layer of some depth, and a head on its last step."""

    def __init__(self, kind: type[nn.RNNBase], *sizes: int, both: bool) -> None:
        super().__init__()
        self.layer = kind(*sizes, batch_first=True, bidirectional=both)  # type: ignore[arg-type]
        self.head = nn.Linear(sizes[1] * (1 + both), 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


def _recurrent(draw: Random) -> Built:
    width, hidden = draw.choice([16, 40, 64, 100]), draw.choice([16, 32, 64, 96])
    kind, both = draw.choice([nn.GRU, nn.LSTM]), draw.random() < 0.4
    module = Recurrent(kind, width, hidden, draw.choice([1, 1, 2]), both=both)
    return module, (torch.randn(draw.choice([1, 1, 4]), draw.choice([10, 30, 80]), width),)


class Categories(nn.Module):
    """Embeddings of categories and of their pairs, and linear layers."""

    def __init__(self, tables: int, rows: int, width: int, *, pairs: bool, bag: bool) -> None:
        super().__init__()
        table = partial(nn.EmbeddingBag, mode="sum") if bag else nn.Embedding
        self.tables = nn.ModuleList(table(rows, width) for _ in range(tables))
        self.pairs, joined = pairs, tables * (tables if pairs else width)
        self.head = nn.Sequential(nn.Linear(joined, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, kinds: Tensor) -> Tensor:
        found = [table(kinds[:, i]) for i, table in enumerate(self.tables)]
        if not self.pairs:
            return self.head(torch.cat(found, 1))
        every = torch.stack(found, 1)
        return self.head((every @ every.transpose(1, 2)).flatten(1)).sigmoid()


def _categories(draw: Random, *, bag: bool = False) -> Built:
    tables, rows = draw.choice([4, 8, 16, 30]), draw.choice([100, 1000, 20000])
    module = Categories(tables, rows, draw.choice([8, 16, 32]), pairs=draw.random() < 0.4, bag=bag)
    length = [draw.choice([4, 10])] if bag else []
    return module, (torch.randint(0, rows, (draw.choice([1, 16, 64]), tables, *length)),)


class Steps(nn.Module):
    """A cell that is written out, step by step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read, self.keep = nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        state, found = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            new, gate = self.read(x[:, t]).chunk(2, -1)
            state = state + torch.sigmoid(gate) * (torch.tanh(new + self.keep(state)) - state)
            found.append(state)
        return torch.stack(found, 1)


def _steps(draw: Random) -> Built:
    width = draw.choice([8, 24, 48, 96])
    return Steps(width), (torch.randn(draw.choice([1, 4]), draw.choice([5, 12, 24]), width),)


class Halves(nn.Module):
    """An encoder and a decoder of feature maps, with connections across."""

    def __init__(self, width: int, mode: str) -> None:
        super().__init__()
        self.mode = mode
        down = ((3, width), (width, 2 * width), (2 * width, 4 * width))
        up = ((6 * width, 2 * width), (3 * width, width))
        self.down = nn.ModuleList(nn.Conv2d(*sizes, 3, padding=1) for sizes in down)
        self.up = nn.ModuleList(nn.Conv2d(*sizes, 3, padding=1) for sizes in up)
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down[0](x).relu()
        second = self.down[1](F.max_pool2d(first, 2)).relu()
        x = self.down[2](F.max_pool2d(second, 2)).relu()
        for layer, other in zip(self.up, (second, first), strict=True):
            wider = F.interpolate(x, scale_factor=2.0, mode=self.mode)
            x = layer(torch.cat([wider, other], 1)).relu()
        return self.head(x)


def _halves(draw: Random) -> Built:
    module = Halves(draw.choice([4, 8, 12]), draw.choice(["nearest", "bilinear"]))
    return module, (torch.randn(1, 3, *[draw.choice([16, 32, 48])] * 2),)


KINDS: Mapping[str, Callable[[Random], Built]] = {
    "dense": _dense,
    "signal": partial(_maps, axes=1),
    "picture": partial(_maps, axes=2),
    "volume": partial(_maps, axes=3),
    "inverted": _inverted,
    "encoder": _encoder,
    "recurrent": _recurrent,
    "categories": _categories,
    "bags": partial(_categories, bag=True),
    "steps": _steps,
    "halves": _halves,
}
"""Functions that draw a network, by kind."""

EACH = 8
"""Number of networks of each kind."""


def drawn(kind: str, number: int) -> Built:
    """A network of a kind, which is the same each time."""
    torch.manual_seed(number)
    module, inputs = KINDS[kind](Random(f"{kind}-{number}"))
    return module.eval(), inputs


FACTORIES = {f"{kind}_{i}": partial(drawn, kind, i) for kind in KINDS for i in range(EACH)}
"""Factories by name, as modules' functions for ``torch:benchmarks.networks.small:dense_0``."""

globals().update(FACTORIES)
