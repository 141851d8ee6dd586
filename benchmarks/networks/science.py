"""Networks for proteins, molecules, graphs, points, and tables."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Attention, Block, Mean, Positions, Residual, mlp, tokens
from .registry import network


class Triangles(nn.Module):
    """Pairs of residues, updated by the edges that complete them to triangles."""

    def __init__(self, width: int, hidden: int, outgoing: bool) -> None:
        super().__init__()
        self.equation = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(hidden)
        self.left, self.right = nn.Linear(width, 2 * hidden), nn.Linear(width, 2 * hidden)
        self.gate, self.out = nn.Linear(width, width), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        left, right = F.glu(self.left(x)), F.glu(self.right(x))
        mixed = torch.einsum(self.equation, left, right)
        return self.gate(x).sigmoid() * self.out(self.after(mixed))


class Axial(nn.Module):
    """Attention along the rows or the columns of a grid, with a gate."""

    def __init__(self, width: int, heads: int, columns: bool) -> None:
        super().__init__()
        self.columns = columns
        self.attention, self.gate = Attention(width, heads), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        if self.columns:
            x = x.transpose(1, 2)
        rows = x[0]
        y = (self.gate(rows).sigmoid() * self.attention(rows))[None]
        return y.transpose(1, 2) if self.columns else y


class Folding(nn.Module):
    """Blocks over an alignment of sequences and over the pairs of its residues."""

    def __init__(self, depth: int, width: int, pair: int, kinds: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(kinds, width)
        self.left, self.right = nn.Embedding(kinds, pair), nn.Embedding(kinds, pair)
        self.sequences = nn.ModuleList(
            nn.Sequential(
                Residual(nn.LayerNorm(width), Axial(width, 4, False)),
                Residual(nn.LayerNorm(width), Axial(width, 4, True)),
                Residual(nn.LayerNorm(width), mlp(width, 4 * width, width)),
            )
            for _ in range(depth)
        )
        self.outer = nn.ModuleList(nn.Linear(width, 2 * 8) for _ in range(depth))
        self.widen = nn.ModuleList(nn.Linear(64, pair) for _ in range(depth))
        self.pairs = nn.ModuleList(
            nn.Sequential(
                Residual(Triangles(pair, pair, True)),
                Residual(Triangles(pair, pair, False)),
                Residual(nn.LayerNorm(pair), Axial(pair, 2, False)),
                Residual(nn.LayerNorm(pair), Axial(pair, 2, True)),
                Residual(nn.LayerNorm(pair), mlp(pair, 2 * pair, pair)),
            )
            for _ in range(depth)
        )
        self.distances = nn.Linear(pair, 64)

    def forward(self, alignment: Tensor) -> Tensor:
        x = self.embed(alignment)
        first = alignment[:, 0]
        pair = self.left(first)[:, :, None] + self.right(first)[:, None]
        for sequence, outer, widen, update in zip(
            self.sequences, self.outer, self.widen, self.pairs, strict=True
        ):
            x = sequence(x)
            a, b = outer(x).chunk(2, -1)
            product = torch.einsum("bsia,bsjc->bijac", a, b).flatten(3) / x.shape[1]
            pair = update(pair + widen(product))
        return self.distances(pair + pair.transpose(1, 2))


@network("proteins")
def folding() -> tuple[nn.Module, Tensor]:
    """Axial attention and triangle updates over pairs of residues."""
    return Folding(2, 128, 64, 23), torch.randint(0, 23, (1, 16, 64))


@network("proteins")
def protein_encoder() -> tuple[nn.Module, Tensor]:
    """A transformer over a long sequence of residues."""
    blocks = [Block(320, 20, 1280) for _ in range(6)]
    return nn.Sequential(
        nn.Embedding(33, 320), Positions(1024, 320), *blocks, nn.LayerNorm(320), nn.Linear(320, 33)
    ), tokens(1024, 33)


class Linearized(nn.Module):
    """Attention without the softmax, whose cost grows with the length alone."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.projections(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        query, key = F.elu(query) + 1, F.elu(key) + 1
        context = key.transpose(-1, -2) @ value
        scale = query @ key.sum(-2, keepdim=True).transpose(-1, -2)
        return self.out((query @ context / scale).transpose(1, 2).flatten(2))


@network("proteins")
def genome_encoder() -> tuple[nn.Module, Tensor]:
    """Convolutions and linear attention over a long sequence of bases."""

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv1d(4, 192, 15, 4, 7)

        def forward(self, x: Tensor) -> Tensor:
            return F.gelu(self.convolution(x)).transpose(1, 2)

    layers: list[nn.Module] = [First()]
    for _ in range(4):
        layers.append(Residual(nn.LayerNorm(192), Linearized(192, 6)))
        layers.append(Residual(nn.LayerNorm(192), mlp(192, 768, 192, activation=nn.GELU)))
    return nn.Sequential(*layers, nn.Linear(192, 8)), torch.randn(1, 4, 8192)


class GraphConvolution(nn.Module):
    """Features of a graph's nodes, mixed by its dense adjacency."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, False)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        return F.relu(self.own(x) + adjacency @ self.others(x))


class Graphs(nn.Module):
    """Layers over the nodes of a graph, then scores of each node."""

    def __init__(self, layers: list[nn.Module], width: int, classes: int) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(layers), nn.Linear(width, classes)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, adjacency)
        return self.head(x)


@network("graphs")
def graph_convolutions() -> tuple[nn.Module, Tensor, Tensor]:
    """Graph convolutions over a citation graph with wide features."""
    layers = [GraphConvolution(1433, 128), GraphConvolution(128, 128), GraphConvolution(128, 128)]
    adjacency = (torch.rand(1, 1200, 1200) < 0.01).float()
    return Graphs(layers, 128, 7), torch.randn(1, 1200, 1433), adjacency


class GraphAttention(nn.Module):
    """Attention of a graph's nodes to their neighbours."""

    def __init__(self, inputs: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.project = heads, nn.Linear(inputs, width, False)
        self.source = nn.Parameter(torch.randn(heads, width // heads) * 0.1)
        self.target = nn.Parameter(torch.randn(heads, width // heads) * 0.1)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        x = self.project(x).unflatten(-1, (self.heads, -1))
        source, target = (x * self.source).sum(-1), (x * self.target).sum(-1)
        scores = F.leaky_relu(source[:, :, None] + target[:, None], 0.2)
        scores = torch.where(adjacency[..., None] > 0, scores, -1e9).softmax(2)
        return F.elu(torch.einsum("bijh,bjhc->bihc", scores, x).flatten(2))


@network("graphs")
def graph_attention() -> tuple[nn.Module, Tensor, Tensor]:
    """Attention of nodes to their neighbours."""
    layers = [GraphAttention(64, 128, 8), GraphAttention(128, 128, 8), GraphAttention(128, 128, 8)]
    adjacency = (torch.rand(1, 300, 300) < 0.05).float() + torch.eye(300)
    return Graphs(layers, 128, 40), torch.randn(1, 300, 64), adjacency


class Messages(nn.Module):
    """Messages along all edges of molecules, and a gated update of their atoms."""

    def __init__(self, width: int, edge: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.message = mlp(2 * width + edge, 128, width)
        self.update = nn.GRUCell(width, width)
        self.head = mlp(width, 128, 12)

    def forward(self, atoms: Tensor, bonds: Tensor) -> Tensor:
        count = atoms.shape[1]
        for _ in range(self.steps):
            pairs = torch.cat([
                atoms.unsqueeze(2).expand(-1, -1, count, -1),
                atoms.unsqueeze(1).expand(-1, count, -1, -1), bonds,
            ], -1)  # fmt: skip
            gathered = self.message(pairs).sum(2)
            atoms = self.update(gathered.flatten(0, 1), atoms.flatten(0, 1)).view_as(atoms)
        return self.head(atoms.mean(1))


@network("graphs")
def molecules() -> tuple[nn.Module, Tensor, Tensor]:
    """Messages along the bonds of four molecules."""
    return Messages(64, 16, 3), torch.randn(4, 29, 64), torch.randn(4, 29, 29, 16)


class PointCloud(nn.Module):
    """Points turned by a matrix of their own, then the maxima over all of them."""

    def __init__(self, classes: int) -> None:
        super().__init__()

        def shared(*widths: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            for a, b in pairwise(widths):
                layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
            return nn.Sequential(*layers)

        self.seen, self.turn = shared(3, 64, 128, 512), mlp(512, 256, 9)
        self.low, self.high = shared(3, 64, 64), shared(64, 128, 1024)
        self.parts = nn.Sequential(shared(1088, 256, 128), nn.Conv1d(128, classes, 1))

    def forward(self, points: Tensor) -> Tensor:
        turn = self.turn(self.seen(points).amax(-1)).view(-1, 3, 3)
        low = self.low(turn @ points)
        whole = self.high(low).amax(-1, keepdim=True).expand(-1, -1, points.shape[-1])
        return self.parts(torch.cat([low, whole], 1))


@network("points")
def point_cloud() -> tuple[nn.Module, Tensor]:
    """A class for each of 1024 points."""
    return PointCloud(50), torch.randn(1, 3, 1024)


class Neighbours(nn.Module):
    """Edges of points to their nearest neighbours, of which the largest values are kept."""

    def __init__(self, inputs: int, outputs: int, count: int) -> None:
        super().__init__()
        self.count, self.layer = count, mlp(2 * inputs, outputs, outputs, activation=nn.ReLU)

    def forward(self, x: Tensor) -> Tensor:
        squares = (x * x).sum(-1)
        distances = squares[:, :, None] - 2 * x @ x.transpose(1, 2) + squares[:, None]
        nearest = distances.topk(self.count, largest=False).indices
        others = x[0][nearest[0]][None]
        own = x.unsqueeze(2).expand_as(others)
        return self.layer(torch.cat([own, others - own], -1)).amax(2)


@network("points")
def dynamic_neighbours() -> tuple[nn.Module, Tensor]:
    """Graphs of nearest neighbours that are found anew in each layer."""
    layers = [Neighbours(3, 64, 12), Neighbours(64, 64, 12), Neighbours(64, 128, 12)]
    return nn.Sequential(*layers, mlp(128, 256, 40), Mean()), torch.randn(1, 384, 3)


@network("tables")
def tabular() -> tuple[nn.Module, Tensor]:
    """Residual linear layers over the rows of a table."""
    layers: list[nn.Module] = [nn.Linear(200, 384)]
    layers += [
        Residual(nn.BatchNorm1d(384), nn.Linear(384, 768), nn.ReLU(), nn.Linear(768, 384))
        for _ in range(6)
    ]
    return nn.Sequential(*layers, nn.BatchNorm1d(384), nn.ReLU(), nn.Linear(384, 3)), torch.randn(
        64, 200
    )


class Features(nn.Module):
    """A token for each number of a row."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count, width) * 0.1)
        self.bias = nn.Parameter(torch.randn(count, width) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1) * self.weight + self.bias


@network("tables")
def feature_tokens() -> tuple[nn.Module, Tensor]:
    """A transformer whose tokens are the columns of a table."""
    blocks = [Block(96, 8, 128, activation=nn.ReLU) for _ in range(4)]
    return nn.Sequential(Features(60, 96), *blocks, Mean(), nn.Linear(96, 2)), torch.randn(32, 60)


@network("tables")
def plain_layers() -> tuple[nn.Module, Tensor]:
    """Linear layers of a single row, narrow at the end."""
    return mlp(784, 2048, 2048, 1024, 512, 10), torch.randn(1, 784)
