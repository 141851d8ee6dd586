"""Networks for video, recommendation, time series, graphs, points, proteins, tables and games."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from ..layers import (
    Attention,
    Block,
    Mean,
    Positions,
    Residual,
    Transposed,
    basic,
    conv,
    mlp,
    tokens,
)
from ..recommendation import (
    Cross,
    Factorized,
    Interaction,
    Interest,
    Tables,
    TwoTowers,
    WideAndDeep,
    categories,
)
from ..science import (
    Features,
    Folding,
    GraphAttention,
    GraphConvolution,
    Graphs,
    Messages,
    Neighbours,
    PointCloud,
)
from ..series import Decomposed, Forecast, Inception1d, Last, PatchedSeries, Sequence, Sparse
from ..speech import Chomped
from .registry import published

Built = tuple[nn.Module, *tuple[Tensor, ...]]


def of(module: nn.Module, *shape: int) -> Built:
    """A module, and a random input of some shape."""
    return module, torch.randn(*shape)


def c3d() -> Built:
    """Convolutions of 3×3×3 and linear layers."""
    layers: list[nn.Module] = []
    width = 3
    for channels, count, depth in ((64, 1, 1), (128, 1, 2), (256, 2, 2), (256, 2, 2)):
        for _ in range(count):
            layers += [nn.Conv3d(width, channels, 3, padding=1), nn.ReLU()]
            width = channels
        layers.append(nn.MaxPool3d((depth, 2, 2)))
    layers += [nn.Flatten(), nn.Linear(256 * 72, 2048), nn.ReLU(), nn.Linear(2048, 487)]
    return of(nn.Sequential(*layers), 1, 3, 16, 96, 96)


def video_resnet(factored: bool) -> Built:
    """Residual blocks over space and time, whose convolutions may be factored."""

    def step(a: int, b: int, stride: int) -> list[nn.Module]:
        if factored:
            middle = (a * b * 27) // (a * 9 + 3 * b)
            return [nn.Conv3d(a, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
                    nn.BatchNorm3d(middle), nn.ReLU(),
                    nn.Conv3d(middle, b, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
                    nn.BatchNorm3d(b)]  # fmt: skip
        return [nn.Conv3d(a, b, 3, stride, 1, bias=False), nn.BatchNorm3d(b)]

    stem = nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
    layers: list[nn.Module] = [stem, nn.BatchNorm3d(64), nn.ReLU()]
    for a, b in pairwise((64, 64, 128, 256, 512)):
        stride = 1 if a == b else 2
        shortcut = nn.Conv3d(a, b, 1, stride, bias=False) if stride > 1 else None
        layers.append(Residual(*step(a, b, stride), nn.ReLU(), *step(b, b, 1), shortcut=shortcut,
                               after=nn.ReLU()))  # fmt: skip
        layers.append(Residual(*step(b, b, 1), nn.ReLU(), *step(b, b, 1), after=nn.ReLU()))
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(512, 400)]
    return of(nn.Sequential(*layers), 1, 3, 8, 80, 80)


def x3d() -> Built:
    """Narrow bottlenecks with depthwise convolutions over space and time."""

    def block(a: int, b: int, stride: int) -> nn.Module:
        inner = round(2.25 * b)
        body = [
            nn.Conv3d(a, inner, 1, bias=False), nn.BatchNorm3d(inner), nn.ReLU(),
            nn.Conv3d(inner, inner, 3, (1, stride, stride), 1, groups=inner, bias=False),
            nn.BatchNorm3d(inner), nn.SiLU(), nn.Conv3d(inner, b, 1, bias=False),
            nn.BatchNorm3d(b),
        ]  # fmt: skip
        shortcut = nn.Conv3d(a, b, 1, (1, stride, stride), bias=False) if stride > 1 else None
        return Residual(*body, shortcut=shortcut, after=nn.ReLU())

    layers: list[nn.Module] = [nn.Conv3d(3, 24, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False)]
    inputs = 24
    for width, count in ((24, 3), (48, 5), (96, 11), (192, 7)):
        layers += [block(inputs, width, 2), *(block(width, width, 1) for _ in range(count - 1))]
        inputs = width
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(192, 400)]
    return of(nn.Sequential(*layers), 1, 3, 4, 160, 160)


class SpaceTime(nn.Module):
    """A block that attends over time first, then over space."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.time = Residual(nn.LayerNorm(width), Attention(width, heads))
        self.space = Block(width, heads)

    def forward(self, x: Tensor) -> Tensor:
        x = self.time(x.transpose(0, 1)).transpose(0, 1)
        return self.space(x)


class Frames(nn.Module):
    """Embedded patches of each frame."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.embed(x).flatten(2).transpose(1, 2)


def timesformer() -> Built:
    """Attention divided over space and time."""
    blocks = [SpaceTime(384, 6) for _ in range(6)]
    return of(nn.Sequential(Frames(384), *blocks, nn.LayerNorm(384), Mean()), 4, 3, 160, 160)


class Collaborative(nn.Module):
    """Factors of users and things, multiplied and through linear layers."""

    def __init__(self, users: int, things: int) -> None:
        super().__init__()
        self.pairs, self.deep = Tables([users, things], 32), Tables([users, things], 128)
        self.layers, self.head = mlp(256, 256, 128, 64), nn.Linear(96, 1)

    def forward(self, kinds: Tensor) -> Tensor:
        pairs, deep = self.pairs(kinds), self.deep(kinds).flatten(1)
        return self.head(torch.cat([pairs[:, 0] * pairs[:, 1], self.layers(deep)], 1)).sigmoid()


def collaborative() -> Built:
    """Users and things in a batch."""
    return Collaborative(6000, 4000), categories([6000, 4000], 256)


_SIZES = [(i * 733) % 9000 + 10 for i in range(26)]


def with_categories(build: type[nn.Module], *arguments: int, numbers: int = 0) -> Built:
    """A network over 26 kinds of categories, and numbers before them."""
    before = [torch.randn(128, numbers)] if numbers else []
    return build(_SIZES, *arguments), *before, categories(_SIZES, 128)


def candidates() -> Built:
    """Means of watched videos, linear layers and scores of many others."""
    return nn.Sequential(
        nn.Embedding(30000, 256), Mean(), mlp(256, 1024, 512, 256), nn.ReLU(),
        nn.Linear(256, 30000),
    ), torch.randint(0, 30000, (4, 50))  # fmt: skip


class AutoInteraction(nn.Module):
    """Attention between the kinds of categories."""

    def __init__(self, sizes: list[int], width: int, depth: int) -> None:
        super().__init__()
        self.tables = Tables(sizes, width)
        self.body = nn.Sequential(
            *(Residual(Attention(width, 2), after=nn.ReLU()) for _ in range(depth))
        )
        self.head = nn.Linear(len(sizes) * width, 1)

    def forward(self, kinds: Tensor) -> Tensor:
        return self.head(self.body(self.tables(kinds)).flatten(1)).sigmoid()


def chosen(causal: bool, width: int, depth: int) -> Built:
    """Attention over the things that a user chose."""
    blocks = [Block(width, 2, causal=causal) for _ in range(depth)]
    return nn.Sequential(
        nn.Embedding(20000, width), Positions(200, width), *blocks, nn.LayerNorm(width)
    ), tokens(200, 20000)


def temporal() -> Built:
    """Causal dilated convolutions over a series."""
    layers = []
    for i in range(8):
        first, second = (Chomped(128, 128, 3, 2**i) for _ in range(2))
        layers.append(Residual(first, nn.ReLU(), second, nn.ReLU()))
    return of(nn.Sequential(nn.Conv1d(8, 128, 1), *layers, nn.Conv1d(128, 8, 1)), 1, 8, 400)


def informer() -> Built:
    """Sparse attention over a series."""
    layers: list[nn.Module] = [nn.Linear(7, 512), Positions(96, 512)]
    for _ in range(2):
        sample = torch.randint(0, 96, (25,))
        layers += [Residual(Sparse(512, 8, 25, sample)), nn.LayerNorm(512)]
        layers += [Residual(mlp(512, 2048, 512, activation=nn.GELU)), nn.LayerNorm(512)]
    return of(nn.Sequential(*layers, nn.Linear(512, 7)), 1, 96, 7)


def series_mixer() -> Built:
    """Linear layers over time and over series in turn."""
    layers: list[nn.Module] = []
    for _ in range(8):
        layers.append(Residual(nn.BatchNorm1d(512), Transposed(nn.Linear(512, 512), nn.ReLU())))
        layers.append(Residual(nn.BatchNorm1d(512), mlp(64, 256, 64)))
    return of(nn.Sequential(*layers, Transposed(nn.Linear(512, 96))), 1, 512, 64)


def inverted_series() -> Built:
    """A transformer whose tokens are whole series."""
    blocks = [Block(512, 8, 512, before=False) for _ in range(4)]
    return of(nn.Sequential(nn.Linear(96, 512), *blocks, nn.Linear(512, 96)), 1, 321, 96)


def series_convolutions() -> Built:
    """Three convolutions over a series, and the mean."""
    layers: list[nn.Module] = []
    for a, b, kernel in ((1, 128, 8), (128, 256, 5), (256, 128, 3)):
        layers += [nn.Conv1d(a, b, kernel, padding="same"), nn.BatchNorm1d(b), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 10)]
    return of(nn.Sequential(*layers), 1, 1, 512)


def graph(kind: str, nodes: int, features: int, width: int, classes: int) -> Built:
    """Layers over the nodes of a graph."""
    adjacency = (torch.rand(1, nodes, nodes) < 0.01).float() + torch.eye(nodes)
    layer = GraphConvolution if kind == "convolution" else lambda a, b: GraphAttention(a, b, 8)
    module = Graphs([layer(features, width), layer(width, width)], width, classes)
    return module, torch.randn(1, nodes, features), adjacency


class Isomorphism(nn.Module):
    """Sums over neighbours, and an MLP."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = mlp(inputs, outputs, outputs)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        return self.layers(x + adjacency @ x).relu()


def isomorphism() -> Built:
    """Sums over the neighbours in a batch of graphs."""
    layers = [Isomorphism(16 if i == 0 else 64, 64) for i in range(5)]
    return Graphs(layers, 64, 2), torch.randn(16, 40, 16), (torch.rand(16, 40, 40) < 0.1).float()


def residues(width: int, depth: int, heads: int, length: int) -> Built:
    """A transformer over residues."""
    return nn.Sequential(
        nn.Embedding(33, width), *(Block(width, heads) for _ in range(depth)),
        nn.LayerNorm(width), nn.Linear(width, 33),
    ), tokens(length, 33)  # fmt: skip


def text_lines() -> Built:
    """Convolutions over a line of text, then recurrent layers over its columns."""

    class Line(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.squeeze(2).transpose(1, 2)

    layers: list[nn.Module] = [conv(1, 64), nn.MaxPool2d(2), conv(64, 128), nn.MaxPool2d(2)]
    layers += [conv(128, 256), conv(256, 256), nn.MaxPool2d((2, 1)), conv(256, 512)]
    layers += [conv(512, 512), nn.MaxPool2d((2, 1)), nn.Conv2d(512, 512, (2, 2)), Line()]
    layers.append(Sequence(nn.LSTM(512, 256, 2, batch_first=True, bidirectional=True)))
    return of(nn.Sequential(*layers, nn.Linear(512, 37)), 1, 1, 32, 100)


def atari() -> Built:
    """Three convolutions over frames of a game, and values of actions."""
    return of(nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
        nn.Linear(512, 18),
    ), 1, 4, 84, 84)  # fmt: skip


class Board(nn.Module):
    """Residual blocks over a board, with heads for moves and the value."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(17, width), *(basic(width, width) for _ in range(depth)))
        self.moves = nn.Sequential(conv(width, 2, 1), nn.Flatten(), nn.Linear(722, 362))
        self.value = nn.Sequential(conv(width, 1, 1), nn.Flatten(), mlp(361, 256, 1), nn.Tanh())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x)
        return self.moves(x), self.value(x)


def impala() -> Built:
    """Residual blocks over a frame, then a recurrent layer."""
    layers: list[nn.Module] = []
    for a, b in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.MaxPool2d(3, 2, 1)]
        layers += [
            Residual(nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU(),
                     nn.Conv2d(b, b, 3, padding=1))
            for _ in range(2)
        ]  # fmt: skip
    layers += [nn.ReLU(), nn.Flatten(), nn.Linear(3872, 256), nn.ReLU(), nn.Unflatten(1, (1, 256))]
    layers += [Sequence(nn.LSTM(256, 256, batch_first=True)), Last(), nn.Linear(256, 18)]
    return of(nn.Sequential(*layers), 1, 3, 84, 84)


class Highway(nn.Module):
    """A layer whose input is kept in part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate(x).sigmoid()
        return gate * self.layer(x).relu() + (1 - gate) * x


def radiance() -> Built:
    """Linear layers over points along rays."""
    return of(nn.Sequential(mlp(63, *(256,) * 8), nn.ReLU(), mlp(256, 128, 4)), 4096, 63)


class Splines(nn.Module):
    """Sums of learned functions of each input, in a basis of bumps."""

    def __init__(self, inputs: int, outputs: int, bumps: int = 8) -> None:
        super().__init__()
        self.register_buffer("centers", torch.linspace(-2, 2, bumps))
        self.base, self.weights = nn.Linear(inputs, outputs), nn.Linear(inputs * bumps, outputs)

    def forward(self, x: Tensor) -> Tensor:
        bumps = torch.exp(-((x.unsqueeze(-1) - self.centers) * 1.75).square())
        return self.base(nn.functional.silu(x)) + self.weights(bumps.flatten(1))


def rows(kind: str) -> Built:
    """Rows of a table through some kind of layers."""
    if kind == "highway":
        body = [Highway(256) for _ in range(10)]
    elif kind == "self-normalizing":
        body = [nn.Sequential(nn.Linear(256, 256), nn.SELU()) for _ in range(8)]
    elif kind == "splines":
        body = [Splines(256, 256) for _ in range(3)]
    else:
        body = [
            Residual(nn.BatchNorm1d(256), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
            for _ in range(8)
        ]
    return of(nn.Sequential(nn.Linear(100, 256), *body, nn.Linear(256, 2)), 64, 100)


def columns() -> Built:
    """A transformer whose tokens are the columns of a table."""
    blocks = [Block(192, 8, 256) for _ in range(3)]
    return of(nn.Sequential(Features(40, 192), *blocks, Mean(), nn.Linear(192, 2)), 32, 40)


def examples_in_context() -> Built:
    """A transformer whose tokens are the rows of a small data set."""
    blocks = [Block(512, 4, 1024, before=False) for _ in range(6)]
    return of(nn.Sequential(nn.Linear(100, 512), *blocks, mlp(512, 1024, 10)), 1, 256, 100)


# fmt: off
published("dqn", "2013-12", "Mnih et al., Playing Atari", atari)
published("c3d", "2014-12", "Tran et al., C3D", c3d)
published("highway", "2015-05", "Srivastava et al., Highway networks", rows, "highway")
published("crnn", "2015-07", "Shi et al., Image-based sequence recognition", text_lines)
published("wide_and_deep", "2016-06", "Cheng et al., Wide and deep learning",
          lambda: (WideAndDeep(_SIZES, 32, 1000), torch.randn(64, 1000), categories(_SIZES, 64)))
published("gcn", "2016-09", "Kipf and Welling, Graph convolutional networks", graph, "convolution",
          1000, 1433, 64, 7)
published("youtube", "2016-09", "Covington et al., YouTube recommendations", candidates)
published("series_fcn", "2016-11", "Wang et al., Time series classification", series_convolutions)
published("pointnet", "2016-12", "Qi et al., PointNet", lambda: of(PointCloud(50), 1, 3, 1024))
published("deepfm", "2017-03", "Guo et al., DeepFM", with_categories, Factorized, 16)
published("message_passing", "2017-04", "Gilmer et al., Neural message passing",
          lambda: (Messages(64, 16, 3), torch.randn(2, 24, 64), torch.randn(2, 24, 24, 16)))
published("din", "2017-06", "Zhou et al., Deep interest network",
          lambda: (Interest(20000, 64), torch.randint(0, 20000, (16, 100)),
                   torch.randint(0, 20000, (16,))))
published("self_normalizing", "2017-06", "Klambauer et al., Self-normalizing networks", rows,
          "self-normalizing")
published("deep_cross", "2017-08", "Wang et al., Deep and cross network",
          lambda: of(Cross(429, 6, 429), 256, 429))
published("ncf", "2017-08", "He et al., Neural collaborative filtering", collaborative)
published("alphago_zero", "2017-10", "Silver et al., Mastering Go without human knowledge",
          lambda: of(Board(128, 10), 1, 17, 19, 19))
published("gat", "2017-10", "Veličković et al., Graph attention networks", graph, "attention", 300,
          500, 64, 7)
published("r3d_18", "2017-11", "Tran et al., Spatiotemporal convolutions", video_resnet, False)
published("r2plus1d_18", "2017-11", "Tran et al., Spatiotemporal convolutions", video_resnet, True)
published("dgcnn", "2018-01", "Wang et al., Dynamic graph CNN",
          lambda: of(nn.Sequential(Neighbours(3, 64, 20), Neighbours(64, 64, 20),
                                   Neighbours(64, 128, 20), mlp(128, 512, 40)), 1, 256, 3))
published("impala", "2018-02", "Espeholt et al., IMPALA", impala)
published("tcn", "2018-03", "Bai et al., Generic convolutional sequence modeling", temporal)
published("sasrec", "2018-08", "Kang and McAuley, Self-attentive recommendation", chosen, True, 50,
          2)
published("autoint", "2018-10", "Song et al., AutoInt", with_categories, AutoInteraction, 32, 3)
published("gin", "2018-10", "Xu et al., How powerful are graph networks?", isomorphism)
published("bert4rec", "2019-04", "Sun et al., BERT4Rec", chosen, False, 128, 2)
published("n_beats", "2019-05", "Oreshkin et al., N-BEATS",
          lambda: of(Forecast(15, 120, 24, 512, 32), 8, 120))
published("two_towers", "2019-09", "Yi et al., Sampling-bias-corrected retrieval",
          lambda: (TwoTowers(20000, 30000, 64), torch.randint(0, 20000, (1,)), torch.randn(1, 32),
                   torch.randint(0, 30000, (500,)), torch.randn(500, 32)))
published("dlrm", "2019-06", "Naumov et al., DLRM", with_categories, Interaction, 64, 13,
          numbers=13)
published("inception_time", "2019-09", "Fawaz et al., InceptionTime",
          lambda: of(nn.Sequential(*(Inception1d(3 if i == 0 else 128, 32) for i in range(6)),
                                   nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 4)),
                     1, 3, 600))
published("nerf", "2020-03", "Mildenhall et al., Neural radiance fields", radiance)
published("x3d_s", "2020-04", "Feichtenhofer, X3D", x3d)
published("dcn_v2", "2020-08", "Wang et al., DCN V2", lambda: of(Cross(845, 3, 256), 128, 845))
published("informer", "2020-12", "Zhou et al., Informer", informer)
published("timesformer", "2021-02", "Bertasius et al., Space-time attention", timesformer)
published("ft_transformer", "2021-06", "Gorishniy et al., Revisiting models for tables", columns)
published("tabular_resnet", "2021-06", "Gorishniy et al., Revisiting models for tables", rows,
          "residual")
published("alphafold_2", "2021-07", "Jumper et al., AlphaFold, one block, narrowed",
          lambda: (Folding(1, 128, 64, 23), torch.randint(0, 23, (1, 16, 48))))
published("dlinear", "2022-05", "Zeng et al., Are transformers effective?",
          lambda: of(Decomposed(336, 96), 1, 336, 321))
published("esm2_8m", "2022-07", "Lin et al., ESM-2", residues, 320, 6, 20, 256)
published("esm2_35m", "2022-07", "Lin et al., ESM-2", residues, 480, 12, 20, 192)
published("tabpfn", "2022-07", "Hollmann et al., TabPFN", examples_in_context)
published("patchtst", "2022-11", "Nie et al., A time series is worth 64 words",
          lambda: of(PatchedSeries(512, 16, 128, 3, 96), 7, 512))
published("tsmixer", "2023-03", "Chen et al., TSMixer", series_mixer)
published("itransformer", "2023-10", "Liu et al., iTransformer", inverted_series)
published("kan", "2024-04", "Liu et al., Kolmogorov-Arnold networks, with bumps", rows, "splines")
