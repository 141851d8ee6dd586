"""Networks that separate, enhance and synthesize sound."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Residual, conv
from .registry import network


class Separation(nn.Module):
    """Masks for two speakers over a learned transform of a waveform."""

    def __init__(self, filters: int, width: int, hidden: int, stacks: int, dilations: int) -> None:
        super().__init__()

        def block(dilation: int) -> Residual:
            return Residual(
                nn.Conv1d(width, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden),
                nn.Conv1d(hidden, hidden, 3, 1, dilation, dilation, hidden), nn.PReLU(),
                nn.GroupNorm(1, hidden), nn.Conv1d(hidden, width, 1),
            )  # fmt: skip

        self.filters = filters
        self.transform = nn.Conv1d(1, filters, 16, 8, bias=False)
        blocks = [block(2**i) for _ in range(stacks) for i in range(dilations)]
        self.masks = nn.Sequential(
            nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1), *blocks, nn.PReLU(),
            nn.Conv1d(width, 2 * filters, 1), nn.Sigmoid(),
        )  # fmt: skip
        self.back = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.transform(x))
        masks = self.masks(x).unflatten(1, (2, self.filters))
        return self.back((masks * x.unsqueeze(1)).flatten(0, 1)).transpose(0, 1)


@network("audio separation")
def masked_separation() -> tuple[nn.Module, Tensor]:
    """Two speakers separated by dilated convolutions with PReLU."""
    return Separation(256, 128, 256, 2, 6), torch.randn(1, 1, 16000)


class WaveUNet(nn.Module):
    """A U-Net over a waveform, with a recurrent layer at the bottom."""

    def __init__(self, widths: list[int], sources: int) -> None:
        super().__init__()
        pairs = list(zip([2, *widths], widths, strict=False))
        self.down = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(a, b, 8, 4, 2), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1)
            )
            for a, b in pairs
        )  # fmt: skip
        self.lstm = nn.LSTM(widths[-1], widths[-1], bidirectional=True, batch_first=True)
        self.narrow = nn.Linear(2 * widths[-1], widths[-1])
        self.up = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(b, 2 * b, 3, padding=1), nn.GLU(1),
                nn.ConvTranspose1d(b, sources * 2 if i == 0 else a, 8, 4, 2),
                nn.ReLU() if i else nn.Identity(),
            )
            for i, (a, b) in enumerate(pairs)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for layer in self.down:
            x = layer(x)
            seen.append(x)
        x = self.narrow(self.lstm(x.transpose(1, 2))[0]).transpose(1, 2)
        for layer, skip in zip(reversed(self.up), reversed(seen), strict=True):
            x = layer(x + skip)
        return x


@network("audio separation")
def waveform_unet() -> tuple[nn.Module, Tensor]:
    """Four instruments from a stereo waveform."""
    return WaveUNet([48, 96, 192, 384], 4), torch.randn(1, 2, 16384)


class DualPath(nn.Module):
    """Recurrent layers within chunks of a sequence, then across the chunks."""

    def __init__(self, width: int, hidden: int, depth: int) -> None:
        super().__init__()

        def recurrent() -> nn.LSTM:
            return nn.LSTM(width, hidden, bidirectional=True, batch_first=True)

        self.within = nn.ModuleList(recurrent() for _ in range(depth))
        self.across = nn.ModuleList(recurrent() for _ in range(depth))
        self.back = nn.ModuleList(nn.Linear(2 * hidden, width) for _ in range(2 * depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))

    def forward(self, x: Tensor) -> Tensor:
        for i, (within, across) in enumerate(zip(self.within, self.across, strict=True)):
            for j, layer in enumerate((within, across)):
                y = self.norms[2 * i + j](self.back[2 * i + j](layer(x)[0]))
                x = (x + y).transpose(0, 1)
        return x


@network("audio separation")
def dual_path() -> tuple[nn.Module, Tensor]:
    """Recurrent layers within and across chunks of a sound."""
    return DualPath(64, 96, 3), torch.randn(24, 50, 64)


class Enhancement(nn.Module):
    """A U-Net over a spectrogram with a recurrent layer over its frames."""

    def __init__(self, widths: list[int], bands: int) -> None:
        super().__init__()
        pairs = list(zip([2, *widths], widths, strict=False))
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, (1, 5), (1, 2), (0, 2)), nn.BatchNorm2d(b), nn.ELU())
            for a, b in pairs
        )
        low = bands // 2 ** len(widths) * widths[-1]
        self.frames = nn.GRU(low, low, 2, batch_first=True)
        self.up = nn.ModuleList(
            nn.Sequential(
                nn.ConvTranspose2d(2 * b, a, (1, 5), (1, 2), (0, 2), (0, 1)), nn.BatchNorm2d(a),
                nn.ELU() if i else nn.Tanh(),
            )
            for i, (a, b) in enumerate(pairs)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for layer in self.down:
            x = layer(x)
            seen.append(x)
        frames = x.transpose(1, 2)
        y = self.frames(frames.flatten(2))[0].reshape(frames.shape).transpose(1, 2)
        for layer, skip in zip(reversed(self.up), reversed(seen), strict=True):
            y = layer(torch.cat([y, skip], 1))
        return y


@network("audio enhancement")
def complex_spectrogram() -> tuple[nn.Module, Tensor]:
    """Real and imaginary part of a spectrogram, without its noise."""
    return Enhancement([16, 32, 64, 64, 128], 160), torch.randn(1, 2, 60, 160)


class Vocoder(nn.Module):
    """A waveform from a spectrogram: transposed convolutions and dilated blocks."""

    def __init__(self, width: int, factors: tuple[int, ...]) -> None:
        super().__init__()

        def block(channels: int, dilation: int) -> Residual:
            return Residual(
                nn.LeakyReLU(0.1),
                nn.Conv1d(channels, channels, 7, 1, 3 * dilation, dilation),
                nn.LeakyReLU(0.1), nn.Conv1d(channels, channels, 7, 1, 3),
            )  # fmt: skip

        layers: list[nn.Module] = [nn.Conv1d(80, width, 7, padding=3)]
        for factor in factors:
            up = nn.ConvTranspose1d(width, width // 2, 2 * factor, factor, factor // 2)
            layers += [nn.LeakyReLU(0.1), up]
            width //= 2
            layers += [block(width, 1), block(width, 3), block(width, 5)]
        self.body = nn.Sequential(*layers, nn.LeakyReLU(), nn.Conv1d(width, 1, 7, padding=3))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).tanh()


@network("audio synthesis")
def vocoder() -> tuple[nn.Module, Tensor]:
    """A waveform from a spectrogram."""
    return Vocoder(256, (8, 8, 2, 2)), torch.randn(1, 80, 32)


class GatedStack(nn.Module):
    """Dilated causal convolutions with gates, whose results are all added."""

    def __init__(self, width: int, dilations: list[int]) -> None:
        super().__init__()
        self.inward = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, padding=d, dilation=d) for d in dilations
        )
        self.outward = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in dilations)
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv1d(width, 256, 1), nn.ReLU(), nn.Conv1d(256, 256, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        x, total = self.inward(x), 0
        for gate, outward in zip(self.gates, self.outward, strict=True):
            signal, weight = gate(x)[..., : x.shape[-1]].chunk(2, 1)
            added, kept = outward(signal.tanh() * weight.sigmoid()).chunk(2, 1)
            x, total = x + added, total + kept
        return self.head(total)


@network("audio synthesis")
def gated_dilations() -> tuple[nn.Module, Tensor]:
    """Gated dilated convolutions over an eighth of a second."""
    return GatedStack(64, [2**i for i in range(9)] * 2), torch.randn(1, 1, 2000)


@network("audio classification")
def sound_events() -> tuple[nn.Module, Tensor]:
    """Convolutions over a spectrogram, with pooling between pairs of them."""
    layers: list[nn.Module] = []
    for a, b in ((1, 48), (48, 96), (96, 192), (192, 384)):
        layers += [conv(a, b), conv(b, b), nn.AvgPool2d(2)]
    head = [nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(384, 527), nn.Sigmoid()]
    return nn.Sequential(*layers, *head), torch.randn(1, 1, 200, 64)
