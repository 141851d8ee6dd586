"""Networks that recommend things."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Block, Positions, mlp, tokens
from .registry import network


def categories(sizes: list[int], rows: int) -> Tensor:
    """A random category of each kind, in each of some rows."""
    return torch.stack([torch.randint(0, size, (rows,)) for size in sizes], 1)


class Tables(nn.Module):
    """An embedding of each kind of category."""

    def __init__(self, sizes: list[int], width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)

    def forward(self, kinds: Tensor) -> Tensor:
        found = [table(kinds[:, i]) for i, table in enumerate(self.tables)]
        return torch.stack(found, 1)


class Interaction(nn.Module):
    """Products of all pairs of embeddings between two MLPs."""

    def __init__(self, sizes: list[int], width: int, numbers: int) -> None:
        super().__init__()
        count = len(sizes) + 1
        self.bottom, self.tables = mlp(numbers, 512, 256, width), Tables(sizes, width)
        rows, columns = torch.tril_indices(count, count, -1)
        self.register_buffer("pairs", rows * count + columns)
        self.top = mlp(width + len(rows), 512, 256, 1)

    def forward(self, numbers: Tensor, kinds: Tensor) -> Tensor:
        dense = F.relu(self.bottom(numbers))
        every = torch.cat([dense.unsqueeze(1), self.tables(kinds)], 1)
        products = (every @ every.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([dense, products], 1)).sigmoid()


@network("recommendation")
def embedding_interaction() -> tuple[nn.Module, Tensor, Tensor]:
    """Twenty-six embeddings, and the products of all pairs."""
    sizes = [(i * 733) % 9000 + 10 for i in range(26)]
    return Interaction(sizes, 64, 13), torch.randn(128, 13), categories(sizes, 128)


class Factorized(nn.Module):
    """A linear part, products of pairs from sums of squares, and a deep part."""

    def __init__(self, sizes: list[int], width: int) -> None:
        super().__init__()
        self.linear, self.tables = Tables(sizes, 1), Tables(sizes, width)
        self.deep = mlp(len(sizes) * width, 400, 400, 400, 1)

    def forward(self, kinds: Tensor) -> Tensor:
        x = self.tables(kinds)
        pairs = 0.5 * (x.sum(1).square() - x.square().sum(1)).sum(1, keepdim=True)
        return (self.linear(kinds).sum(1) + pairs + self.deep(x.flatten(1))).sigmoid()


@network("recommendation")
def factorized() -> tuple[nn.Module, Tensor]:
    """Factors of pairs beside a deep network."""
    sizes = [(i * 577) % 6000 + 20 for i in range(39)]
    return Factorized(sizes, 16), categories(sizes, 256)


class WideAndDeep(nn.Module):
    """A wide linear layer beside a deep network."""

    def __init__(self, sizes: list[int], width: int, wide: int) -> None:
        super().__init__()
        self.wide, self.tables = nn.Linear(wide, 1), Tables(sizes, width)
        self.deep = mlp(len(sizes) * width, 1024, 512, 256, 1)

    def forward(self, crossed: Tensor, kinds: Tensor) -> Tensor:
        return (self.wide(crossed) + self.deep(self.tables(kinds).flatten(1))).sigmoid()


@network("recommendation")
def wide_and_deep() -> tuple[nn.Module, Tensor, Tensor]:
    """Crossed features beside a deep network."""
    sizes = [1000, 5000, 200, 50, 8000, 3000, 12, 400]
    return WideAndDeep(sizes, 32, 2000), torch.randn(64, 2000), categories(sizes, 64)


class Cross(nn.Module):
    """Layers whose result is multiplied with the first input."""

    def __init__(self, width: int, depth: int, rank: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, rank, False), nn.Linear(rank, width))
            for _ in range(depth)
        )
        self.deep, self.head = mlp(width, 512, 256), nn.Linear(width + 256, 1)

    def forward(self, x: Tensor) -> Tensor:
        crossed = x
        for layer in self.layers:
            crossed = x * layer(crossed) + crossed
        return self.head(torch.cat([crossed, self.deep(x)], 1)).sigmoid()


@network("recommendation")
def cross_network() -> tuple[nn.Module, Tensor]:
    """Cross layers of low rank beside a deep network."""
    return Cross(845, 3, 128), torch.randn(512, 845)


class TwoTowers(nn.Module):
    """Similarity of a user's and many things' embeddings."""

    def __init__(self, users: int, things: int, width: int) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(users, 128), nn.Embedding(things, 128)
        self.user, self.thing = mlp(160, 512, 256, width), mlp(160, 512, 256, width)

    def forward(self, user: Tensor, context: Tensor, things: Tensor, features: Tensor) -> Tensor:
        left = F.normalize(self.user(torch.cat([self.users(user), context], -1)), dim=-1)
        right = F.normalize(self.thing(torch.cat([self.things(things), features], -1)), dim=-1)
        return left @ right.transpose(0, 1)


@network("recommendation")
def two_towers() -> tuple[nn.Module, Tensor, Tensor, Tensor, Tensor]:
    """A user and a thousand things, each in a tower of its own."""
    return (
        TwoTowers(20000, 30000, 128),
        torch.randint(0, 20000, (1,)),
        torch.randn(1, 32),
        torch.randint(0, 30000, (1000,)),
        torch.randn(1000, 32),
    )


@network("recommendation")
def sequence_of_things() -> tuple[nn.Module, Tensor]:
    """Causal attention over the things that a user chose."""
    blocks = [Block(64, 2, 64, causal=True, activation=nn.ReLU) for _ in range(2)]
    return nn.Sequential(
        nn.Embedding(30000, 64), Positions(200, 64), *blocks, nn.LayerNorm(64)
    ), tokens(200, 30000)


class Interest(nn.Module):
    """The things that a user chose, weighted by how they fit a candidate."""

    def __init__(self, things: int, width: int) -> None:
        super().__init__()
        self.things = nn.Embedding(things, width)
        self.fit, self.head = mlp(4 * width, 80, 40, 1, activation=nn.PReLU), mlp(2 * width, 200, 1)

    def forward(self, chosen: Tensor, candidate: Tensor) -> Tensor:
        past, new = self.things(chosen), self.things(candidate)
        wide = new.unsqueeze(1).expand_as(past)
        weights = self.fit(torch.cat([past, wide, past - wide, past * wide], -1))
        return self.head(torch.cat([(weights * past).sum(1), new], 1)).sigmoid()


@network("recommendation")
def interest() -> tuple[nn.Module, Tensor, Tensor]:
    """A candidate for each of 32 users, beside the things that they chose."""
    return (
        Interest(20000, 48),
        torch.randint(0, 20000, (32, 100)),
        torch.randint(0, 20000, (32,)),
    )
