"""Networks that understand speech."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import (
    Attention,
    Block,
    Mean,
    Positions,
    Residual,
    Transposed,
    classifier,
    conv,
    conv1d,
    mlp,
)
from .registry import network


class Subsample(nn.Module):
    """Frames of a spectrogram, of which convolutions keep every fourth."""

    def __init__(self, bands: int, channels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, 2, 1)
        self.second = nn.Conv2d(channels, channels, 3, 2, 1)
        self.out = nn.Linear(channels * (bands // 4), width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.second(F.relu(self.first(x.unsqueeze(1)))))
        return self.out(x.transpose(1, 2).flatten(2))


class Half(nn.Module):
    """Half of a body's result."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * self.body(x)


def conformer_block(width: int, heads: int, kernel: int) -> nn.Sequential:
    """Attention and a depthwise convolution between two halves of an MLP."""

    def half() -> Residual:
        return Residual(
            Half(nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.SiLU))
        )  # fmt: skip

    convolution = Transposed(
        nn.Conv1d(width, 2 * width, 1), nn.GLU(1),
        conv1d(width, width, kernel, groups=width, activation=nn.SiLU),
        nn.Conv1d(width, width, 1),
    )  # fmt: skip
    return nn.Sequential(
        half(), Residual(nn.LayerNorm(width), Attention(width, heads)),
        Residual(nn.LayerNorm(width), convolution), half(), nn.LayerNorm(width),
    )  # fmt: skip


@network("speech")
def conformer() -> tuple[nn.Module, Tensor]:
    """Conformer blocks over four seconds of speech."""
    blocks = [conformer_block(256, 4, 31) for _ in range(6)]
    return nn.Sequential(
        Subsample(80, 128, 256), *blocks, nn.Linear(256, 1000), nn.LogSoftmax(-1)
    ), torch.randn(1, 400, 80)


@network("speech")
def waveform_encoder() -> tuple[nn.Module, Tensor]:
    """Convolutions over a waveform, then a transformer."""
    layers: list[nn.Module] = []
    inputs = 1
    for i, (kernel, stride) in enumerate([(10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)]):
        layers.append(nn.Conv1d(inputs, 256, kernel, stride, bias=False))
        layers += [nn.GroupNorm(256, 256)] * (i == 0) + [nn.GELU()]
        inputs = 256
    grouped = nn.Sequential(nn.Conv1d(384, 384, 33, padding=16, groups=16), nn.GELU())
    body = [Block(384, 6, before=False) for _ in range(6)]
    sequence = [nn.LayerNorm(256), nn.Linear(256, 384), Residual(Transposed(grouped)), *body]
    return nn.Sequential(*layers, Swapped(), *sequence, nn.Linear(384, 32)), torch.randn(
        1, 1, 16000
    )


class Swapped(nn.Module):
    """A sequence with the last two dimensions swapped."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


@network("speech")
def spectrogram_encoder() -> tuple[nn.Module, Tensor]:
    """Two convolutions over a spectrogram, then a transformer."""
    blocks = [Block(384, 6) for _ in range(4)]
    return nn.Sequential(
        nn.Conv1d(80, 384, 3, padding=1), nn.GELU(), nn.Conv1d(384, 384, 3, 2, 1), nn.GELU(),
        Swapped(), Positions(500, 384), *blocks, nn.LayerNorm(384),
    ), torch.randn(1, 80, 1000)  # fmt: skip


class Chomped(nn.Module):
    """A dilated convolution that sees no later frame."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.extra = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(inputs, outputs, kernel, padding=self.extra, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x)[..., : -self.extra]


@network("speech")
def temporal_convolutions() -> tuple[nn.Module, Tensor]:
    """Causal dilated convolutions over frames."""
    layers = [
        Residual(Chomped(128, 128, 5, d), nn.ReLU(), Chomped(128, 128, 5, d), nn.ReLU())
        for d in (1, 2, 4, 8, 16, 32)
    ]
    return nn.Sequential(nn.Conv1d(40, 128, 1), *layers, nn.Conv1d(128, 29, 1)), torch.randn(
        1, 40, 300
    )


class Transducer(nn.Module):
    """Recurrent layers over frames, of which pairs are joined after the second."""

    def __init__(self, bands: int, width: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.LSTM(bands, width, 2, batch_first=True)
        self.second = nn.LSTM(2 * width, width, 2, batch_first=True)
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)[0]
        x = x.unflatten(1, (-1, 2)).flatten(2)
        return self.out(self.norm(self.second(x)[0]))


@network("speech")
def transducer_encoder() -> tuple[nn.Module, Tensor]:
    """The recurrent encoder of a transducer."""
    return Transducer(80, 384, 512), torch.randn(1, 100, 80)


@network("speech")
def keyword_spotting() -> tuple[nn.Module, Tensor]:
    """Depthwise separable convolutions over a second of speech."""
    layers = [conv(1, 172, (11, 5), 2)]
    for _ in range(4):
        layers += [conv(172, 172, groups=172), conv(172, 172, 1)]
    return nn.Sequential(*layers, classifier(172, 12)), torch.randn(1, 1, 49, 40)


class Stream(nn.Module):
    """A layer that sees a window of frames, with a projection and a memory."""

    def __init__(self, width: int, inner: int, frames: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, inner, False)
        self.memory = nn.Conv1d(inner, inner, frames, padding=frames - 1, groups=inner, bias=False)
        self.up = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.down(x).transpose(1, 2)
        x = x + self.memory(x)[..., : x.shape[-1]]
        return F.relu(self.up(x.transpose(1, 2)))


@network("speech")
def memory_network() -> tuple[nn.Module, Tensor]:
    """Feed-forward layers with a memory of frames."""
    layers = [Residual(Stream(320, 128, 20)) for _ in range(10)]
    return nn.Sequential(nn.Linear(120, 320), *layers, nn.Linear(320, 2000)), torch.randn(
        1, 200, 120
    )


class Statistics(nn.Module):
    """Mean and standard deviation over the frames, weighted by attention."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weights = nn.Sequential(
            nn.Conv1d(channels, 128, 1), nn.Tanh(), nn.Conv1d(128, channels, 1), nn.Softmax(-1)
        )

    def forward(self, x: Tensor) -> Tensor:
        weights = self.weights(x)
        mean = (weights * x).sum(-1)
        spread = (weights * x * x).sum(-1) - mean * mean
        return torch.cat([mean, spread.clamp(min=1e-6).sqrt()], 1)


class Scales(nn.Module):
    """Groups of channels, each of which also sees the result of the group before it."""

    def __init__(self, channels: int, count: int, dilation: int) -> None:
        super().__init__()
        self.count, part = count, channels // count
        self.layers = nn.ModuleList(
            conv1d(part, part, 3, dilation=dilation) for _ in range(count - 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        first, *parts = x.chunk(self.count, 1)
        found = [first]
        for layer, part in zip(self.layers, parts, strict=True):
            found.append(layer(part + found[-1] if len(found) > 1 else part))
        return torch.cat(found, 1)


@network("speech")
def speaker_embedding() -> tuple[nn.Module, Tensor]:
    """An embedding of a speaker's voice from groups of dilated convolutions."""

    def block(dilation: int) -> Residual:
        return Residual(conv1d(512, 512, 1), Scales(512, 8, dilation), conv1d(512, 512, 1))

    return nn.Sequential(
        conv1d(80, 512, 5), block(2), block(3), block(4), nn.Conv1d(512, 768, 1), nn.ReLU(),
        Statistics(768), nn.BatchNorm1d(1536), nn.Linear(1536, 192),
    ), torch.randn(1, 80, 300)  # fmt: skip


@network("speech")
def audio_patches() -> tuple[nn.Module, Tensor]:
    """A transformer over patches of a spectrogram that overlap."""

    class Patched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Conv2d(1, 192, 16, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.embed(x).flatten(2).transpose(1, 2)

    blocks = [Block(192, 3) for _ in range(6)]
    return nn.Sequential(
        Patched(), Positions(12 * 25, 192), *blocks, nn.LayerNorm(192), Mean(), nn.Linear(192, 527)
    ), torch.randn(1, 1, 128, 256)
