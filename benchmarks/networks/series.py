"""Networks for time series, and recurrent networks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Attention, Mean, Positions, Residual, Transposed, conv, conv1d, mlp, tokens
from .registry import network


class Sequence(nn.Module):
    """The outputs of a recurrent layer, without its last state."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Last(nn.Module):
    """The last position of a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]


@network("recurrent")
def language_lstm() -> tuple[nn.Module, Tensor]:
    """Two LSTM layers that predict the next word."""
    return nn.Sequential(
        nn.Embedding(10000, 400), Sequence(nn.LSTM(400, 640, 2, batch_first=True)), Last(),
        nn.Linear(640, 10000),
    ), tokens(48, 10000)  # fmt: skip


@network("recurrent")
def bidirectional() -> tuple[nn.Module, Tensor]:
    """LSTM layers in both directions that label each word."""
    recurrent = nn.LSTM(200, 256, 2, batch_first=True, bidirectional=True)
    return nn.Sequential(
        nn.Embedding(15000, 200), Sequence(recurrent), nn.Linear(512, 19)
    ), tokens(60, 15000)  # fmt: skip


@network("recurrent")
def gated_units() -> tuple[nn.Module, Tensor]:
    """Three GRU layers over a batch of short sensor series."""
    return nn.Sequential(
        Sequence(nn.GRU(24, 192, 3, batch_first=True)), Last(), mlp(192, 64, 6)
    ), torch.randn(8, 64, 24)


class Columns(nn.Module):
    """The columns of a feature map as a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1, 2).transpose(1, 2)


@network("recurrent")
def convolutional_recurrent() -> tuple[nn.Module, Tensor]:
    """Convolutions over a line of text, then recurrent layers over its columns."""
    layers = [conv(1, 32), nn.MaxPool2d(2), conv(32, 64), nn.MaxPool2d(2), conv(64, 128)]
    layers += [conv(128, 128), nn.MaxPool2d((2, 1)), conv(128, 256), nn.MaxPool2d((2, 1))]
    recurrent = nn.LSTM(512, 192, 2, batch_first=True, bidirectional=True)
    return nn.Sequential(*layers, Columns(), Sequence(recurrent), nn.Linear(384, 96)), torch.randn(
        1, 1, 32, 200
    )


class Doubly(nn.Module):
    """A basis expansion that explains part of a series and forecasts from it."""

    def __init__(self, past: int, future: int, width: int, basis: int) -> None:
        super().__init__()
        self.body = nn.Sequential(mlp(past, width, width, width, width), nn.ReLU())
        self.back = nn.Sequential(nn.Linear(width, basis, False), nn.Linear(basis, past))
        self.forth = nn.Sequential(nn.Linear(width, basis, False), nn.Linear(basis, future))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x)
        return x - self.back(hidden), self.forth(hidden)


class Forecast(nn.Module):
    """A chain of basis expansions whose forecasts are added."""

    def __init__(self, count: int, past: int, future: int, width: int, basis: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Doubly(past, future, width, basis) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        total = 0
        for block in self.blocks:
            x, forecast = block(x)
            total = total + forecast
        return total


@network("time series")
def basis_expansion() -> tuple[nn.Module, Tensor]:
    """Twelve basis expansions for sixteen series."""
    return Forecast(12, 168, 24, 384, 32), torch.randn(16, 168)


class Sparse(nn.Module):
    """Attention in which only the queries with the most unequal scores count."""

    def __init__(self, width: int, heads: int, kept: int, sample: Tensor) -> None:
        super().__init__()
        self.heads, self.kept = heads, kept
        self.projections, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("sample", sample)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.projections(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        sampled = query @ key[:, :, self.sample].transpose(-1, -2)
        chosen = (sampled.amax(-1) - sampled.mean(-1)).topk(self.kept).indices.unsqueeze(-1)
        chosen = chosen.expand(-1, -1, -1, query.shape[-1])
        scores = query.gather(2, chosen) @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        mean = value.mean(2, keepdim=True).expand_as(value)
        mixed = mean.scatter(2, chosen, scores.softmax(-1) @ value)
        return self.out(mixed.transpose(1, 2).flatten(2))


@network("time series")
def sparse_attention() -> tuple[nn.Module, Tensor]:
    """Sparse attention over a long series, halved by convolutions between the blocks."""
    layers: list[nn.Module] = [Transposed(nn.Conv1d(7, 256, 3, padding=1)), Positions(384, 256)]
    for i, length in enumerate((384, 192, 96)):
        sample = torch.randint(0, length, (30,))
        layers += [Residual(Sparse(256, 8, 30, sample)), nn.LayerNorm(256)]
        layers += [Residual(mlp(256, 1024, 256, activation=nn.GELU)), nn.LayerNorm(256)]
        if i < 2:
            layers.append(Transposed(conv1d(256, 256, activation=nn.ELU), nn.MaxPool1d(3, 2, 1)))
    return nn.Sequential(*layers, nn.Linear(256, 7)), torch.randn(1, 384, 7)


class Decomposed(nn.Module):
    """A trend and the rest of a series, each forecast by a linear layer."""

    def __init__(self, past: int, future: int) -> None:
        super().__init__()
        self.mean = nn.AvgPool1d(25, 1, 12, count_include_pad=False)
        self.trend, self.rest = nn.Linear(past, future), nn.Linear(past, future)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        trend = self.mean(x)
        return (self.trend(trend) + self.rest(x - trend)).transpose(1, 2)


@network("time series")
def decomposed_linear() -> tuple[nn.Module, Tensor]:
    """Trends and the rest of 321 series, by linear layers alone."""
    return Decomposed(512, 192), torch.randn(1, 512, 321)


class Inception1d(nn.Module):
    """Long convolutions of several widths over a series."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.narrow = nn.Conv1d(inputs, width, 1, bias=False)
        self.branches = nn.ModuleList(
            nn.Conv1d(width, width, k, padding=k // 2, bias=False) for k in (39, 19, 9)
        )
        self.pooled = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(inputs, width, 1, bias=False))
        self.norm = nn.BatchNorm1d(4 * width)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.narrow(x)
        found = [branch(narrow) for branch in self.branches]
        return F.relu(self.norm(torch.cat([*found, self.pooled(x)], 1)))


@network("time series")
def series_inception() -> tuple[nn.Module, Tensor]:
    """Inception blocks that classify an electrocardiogram."""
    layers = [Inception1d(12 if i == 0 else 128, 32) for i in range(6)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 5)), (
        torch.randn(1, 12, 1000)
    )


class PatchedSeries(nn.Module):
    """A transformer over patches of each series, which sees every series alone."""

    def __init__(self, length: int, patch: int, width: int, depth: int, future: int) -> None:
        super().__init__()
        self.patch, count = patch, length // patch
        self.embed, self.positions = nn.Linear(patch, width), Positions(count, width)
        self.body = nn.Sequential(
            *(
                nn.Sequential(
                    Residual(Attention(width, 8)), nn.LayerNorm(width),
                    Residual(mlp(width, 2 * width, width, activation=nn.GELU)),
                    nn.LayerNorm(width),
                )
                for _ in range(depth)
            )
        )  # fmt: skip
        self.head = nn.Linear(count * width, future)

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = x.mean(-1, keepdim=True), x.std(-1, keepdim=True) + 1e-5
        patches = ((x - mean) / spread).unflatten(-1, (-1, self.patch))
        hidden = self.body(self.positions(self.embed(patches)))
        return self.head(hidden.flatten(1)) * spread + mean


@network("time series")
def patched_series() -> tuple[nn.Module, Tensor]:
    """A transformer over patches of 21 series."""
    return PatchedSeries(512, 16, 128, 3, 96), torch.randn(21, 512)


@network("time series")
def channel_mixing() -> tuple[nn.Module, Tensor]:
    """Linear layers over time and over series in turn."""
    layers: list[nn.Module] = []
    for _ in range(6):
        layers.append(Residual(nn.BatchNorm1d(256), Transposed(nn.Linear(256, 256), nn.ReLU())))
        layers.append(Residual(nn.BatchNorm1d(256), mlp(128, 512, 128)))
    return nn.Sequential(*layers, Transposed(nn.Linear(256, 96)), Mean()), torch.randn(4, 256, 128)
