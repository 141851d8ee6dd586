"""Networks that hear and speak."""

from __future__ import annotations

from collections.abc import Sequence as Values

import torch
from torch import Tensor, nn

from ..layers import Attention, Block, Mean, Positions, Residual, classifier, conv, conv1d
from ..series import Columns, Sequence
from ..sound import DualPath, GatedStack, Separation, Vocoder, WaveUNet
from ..speech import Scales, Statistics, Subsample, Swapped, conformer_block
from .registry import published

Built = tuple[nn.Module, Tensor]


def of(module: nn.Module, *shape: int) -> Built:
    """A module, and a random input of some shape."""
    return module, torch.randn(*shape)


def deep_speech() -> Built:
    """Two convolutions over a spectrogram and recurrent layers in both directions."""
    recurrent = nn.GRU(32 * 40, 256, 3, batch_first=True, bidirectional=True)
    return of(nn.Sequential(
        conv(1, 32, (41, 11), 2), conv(32, 32, (21, 11), 1), Columns(), Sequence(recurrent),
        nn.Linear(512, 29),
    ), 1, 1, 80, 200)  # fmt: skip


def wav2letter() -> Built:
    """Convolutions over frames, wide at the end."""
    layers: list[nn.Module] = [nn.Conv1d(40, 250, 48, 2, 23), nn.ReLU()]
    for _ in range(7):
        layers += [nn.Conv1d(250, 250, 7, padding=3), nn.ReLU()]
    layers += [nn.Conv1d(250, 1000, 32, padding=16), nn.ReLU(), nn.Conv1d(1000, 1000, 1)]
    return of(nn.Sequential(*layers, nn.ReLU(), nn.Conv1d(1000, 29, 1)), 1, 40, 300)


def blocks_of_time(separable: bool, widths: Values[int], kernels: Values[int], bands: int) -> Built:
    """Residual blocks of convolutions over frames, plain or separable."""

    def step(a: int, b: int, kernel: int) -> nn.Sequential:
        if separable:
            return nn.Sequential(
                nn.Conv1d(a, a, kernel, padding=kernel // 2, groups=a, bias=False), conv1d(a, b, 1)
            )
        return conv1d(a, b, kernel)

    layers: list[nn.Module] = [conv1d(bands, 256, 33, 2)]
    inputs = 256
    for width, kernel in zip(widths, kernels, strict=True):
        body = [step(inputs, width, kernel), step(width, width, kernel), step(width, width, kernel)]
        layers.append(Residual(*body, shortcut=conv1d(inputs, width, 1, activation=None)))
        inputs = width
    return of(nn.Sequential(*layers, conv1d(inputs, 1024, 1), nn.Conv1d(1024, 29, 1)), 1, bands,
              300)  # fmt: skip


def conformer(width: int, depth: int) -> Built:
    """Conformer blocks over frames."""
    body = [conformer_block(width, 4, 31) for _ in range(depth)]
    return of(nn.Sequential(Subsample(80, width, width), *body, nn.Linear(width, 1000)), 1, 240, 80)


def waveform(width: int, depth: int, heads: int, seconds: float) -> Built:
    """Convolutions over a waveform, then a transformer."""
    layers: list[nn.Module] = []
    inputs = 1
    for i, (kernel, stride) in enumerate([(10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)]):
        layers.append(nn.Conv1d(inputs, 512, kernel, stride, bias=False))
        layers += [nn.GroupNorm(512, 512)] * (i == 0) + [nn.GELU()]
        inputs = 512
    body = [Block(width, heads, before=False) for _ in range(depth)]
    layers += [Swapped(), nn.LayerNorm(512), nn.Linear(512, width), *body]
    return of(nn.Sequential(*layers, nn.Linear(width, 32)), 1, 1, int(16000 * seconds))


def spectrogram(width: int, depth: int, heads: int, frames: int) -> Built:
    """Two convolutions over a spectrogram, then a transformer."""
    return of(nn.Sequential(
        nn.Conv1d(80, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU(),
        Swapped(), Positions(frames // 2, width), *(Block(width, heads) for _ in range(depth)),
        nn.LayerNorm(width),
    ), 1, 80, frames)  # fmt: skip


def raw_encoder() -> Built:
    """Three strided convolutions over a waveform, then a transformer."""
    return of(nn.Sequential(
        nn.Conv1d(1, 288, 127, 64, bias=False), nn.Tanh(), nn.GroupNorm(1, 288),
        nn.Conv1d(288, 576, 7, 3), nn.GELU(), nn.Conv1d(576, 288, 3, 2), nn.GELU(), Swapped(),
        *(Block(288, 8) for _ in range(6)), nn.LayerNorm(288),
    ), 1, 1, 64000)  # fmt: skip


def spoken_words() -> Built:
    """Depthwise separable convolutions over a second of speech."""
    layers = [conv(1, 64, (10, 4), 2)]
    for _ in range(4):
        layers += [conv(64, 64, groups=64), conv(64, 64, 1)]
    return of(nn.Sequential(*layers, classifier(64, 12)), 1, 1, 49, 10)


def residual_words() -> Built:
    """Residual blocks with growing dilations over a second of speech."""
    layers: list[nn.Module] = [conv(1, 45)]
    layers += [Residual(conv(45, 45, dilation=2 ** (i // 2)), conv(45, 45, dilation=2 ** (i // 2)))
               for i in range(6)]  # fmt: skip
    return of(nn.Sequential(*layers, classifier(45, 12)), 1, 1, 101, 40)


def speaker() -> Built:
    """Groups of dilated convolutions, and statistics over the frames."""

    def block(dilation: int) -> Residual:
        return Residual(conv1d(512, 512, 1), Scales(512, 8, dilation), conv1d(512, 512, 1))

    return of(nn.Sequential(
        conv1d(80, 512, 5), block(2), block(3), block(4), conv1d(512, 1536, 1), Statistics(1536),
        nn.Linear(3072, 192),
    ), 1, 80, 200)  # fmt: skip


def x_vector() -> Built:
    """Dilated convolutions over frames, and statistics."""
    return of(nn.Sequential(
        conv1d(24, 512, 5), conv1d(512, 512, 3, dilation=2), conv1d(512, 512, 3, dilation=3),
        conv1d(512, 512, 1), conv1d(512, 1500, 1), Statistics(1500), nn.Linear(3000, 512),
        nn.ReLU(), nn.Linear(512, 512),
    ), 1, 24, 300)  # fmt: skip


def events(widths: Values[int], doubled: bool, frames: int) -> Built:
    """Convolutions over a spectrogram, with pooling between them."""
    layers: list[nn.Module] = []
    inputs = 1
    for width in widths:
        layers += [conv(inputs, width), *([conv(width, width)] if doubled else []), nn.AvgPool2d(2)]
        inputs = width
    return of(nn.Sequential(*layers, classifier(inputs, 527)), 1, 1, frames, 64)


def audio_patches() -> Built:
    """A transformer over patches of a spectrogram that overlap."""

    class Patched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Conv2d(1, 384, 16, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.embed(x).flatten(2).transpose(1, 2)

    return of(nn.Sequential(
        Patched(), Positions(12 * 25, 384), *(Block(384, 6) for _ in range(12)), nn.LayerNorm(384),
        Mean(), nn.Linear(384, 527),
    ), 1, 1, 128, 256)  # fmt: skip


def characters_to_speech() -> Built:
    """Convolutions over characters, and a recurrent layer in both directions."""
    layers: list[nn.Module] = [nn.Embedding(148, 512), Swapped()]
    layers += [conv1d(512, 512, 5) for _ in range(3)]
    layers.append(Swapped())
    layers.append(Sequence(nn.LSTM(512, 256, batch_first=True, bidirectional=True)))
    return nn.Sequential(*layers), torch.randint(0, 148, (1, 80))


def fast_speech() -> Built:
    """Transformer blocks with convolutions, from phonemes to a spectrogram."""

    def block(width: int) -> nn.Sequential:
        wide = nn.Sequential(Swapped(), nn.Conv1d(width, 1024, 9, padding=4), nn.ReLU(),
                             nn.Conv1d(1024, width, 1), Swapped())  # fmt: skip
        return nn.Sequential(Residual(nn.LayerNorm(width), Attention(width, 2)), Residual(wide))

    return nn.Sequential(
        nn.Embedding(80, 256), Positions(100, 256), *(block(256) for _ in range(8)),
        nn.Linear(256, 80),
    ), torch.randint(0, 80, (1, 100))  # fmt: skip


def codec() -> Built:
    """A waveform through strided convolutions and a recurrent layer to a code, and back."""

    def block(width: int) -> Residual:
        return Residual(nn.ELU(), nn.Conv1d(width, width // 2, 3, padding=1), nn.ELU(),
                        nn.Conv1d(width // 2, width, 1))  # fmt: skip

    layers: list[nn.Module] = [nn.Conv1d(1, 32, 7, padding=3)]
    width = 32
    for stride in (2, 4, 5, 8):
        down = nn.Conv1d(width, 2 * width, 2 * stride, stride, stride // 2)
        layers += [block(width), nn.ELU(), down]
        width *= 2
    recurrent = Sequence(nn.LSTM(width, width, 2, batch_first=True))
    layers += [Swapped(), recurrent, Swapped(), nn.Conv1d(width, 128, 7, padding=3)]
    layers.append(nn.Conv1d(128, width, 7, padding=3))
    for stride in (8, 5, 4, 2):
        up = nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, stride // 2)
        layers += [nn.ELU(), up, block(width // 2)]
        width //= 2
    return of(nn.Sequential(*layers, nn.ELU(), nn.Conv1d(width, 1, 7, padding=3)), 1, 1, 12000)


# fmt: off
published("deep_speech_2", "2015-12", "Amodei et al., Deep Speech 2", deep_speech)
published("wavenet", "2016-09", "van den Oord et al., WaveNet",
          lambda: of(GatedStack(64, [2**i for i in range(10)] * 3), 1, 1, 1600))
published("wav2letter", "2016-09", "Collobert et al., Wav2Letter", wav2letter)
published("vggish", "2016-09", "Hershey et al., CNN architectures for audio", events,
          (64, 128, 256, 512), True, 96)
published("kws_residual", "2017-10", "Tang and Lin, Residual learning for keywords", residual_words)
published("kws_separable", "2017-11", "Zhang et al., Hello edge", spoken_words)
published("tacotron_2", "2017-12", "Shen et al., Natural TTS", characters_to_speech)
published("x_vector", "2018-04", "Snyder et al., X-vectors", x_vector)
published("conv_tasnet", "2018-09", "Luo and Mesgarani, Conv-TasNet",
          lambda: of(Separation(512, 128, 512, 3, 8), 1, 1, 8000))
published("jasper", "2019-04", "Li et al., Jasper", blocks_of_time, False, (256, 384, 512),
          (11, 13, 17), 64)
published("melgan", "2019-10", "Kumar et al., MelGAN", lambda: of(Vocoder(512, (8, 8, 2, 2)), 1, 80,
          16))
published("dprnn", "2019-10", "Luo et al., Dual-path RNN",
          lambda: of(DualPath(64, 128, 6), 20, 40, 64))
published("quartznet", "2019-10", "Kriman et al., QuartzNet", blocks_of_time, True,
          (256, 256, 512, 512, 512), (33, 39, 51, 63, 75), 64)
published("demucs", "2019-11", "Défossez et al., Music source separation",
          lambda: of(WaveUNet([64, 128, 256, 512], 4), 1, 2, 16384))
published("cnn14", "2019-12", "Kong et al., Pretrained audio networks", events,
          (64, 128, 256, 512, 1024), True, 200)
published("conformer_s", "2020-05", "Gulati et al., Conformer", conformer, 144, 16)
published("ecapa_tdnn", "2020-05", "Desplanques et al., ECAPA-TDNN", speaker)
published("wav2vec_2", "2020-06", "Baevski et al., wav2vec 2.0, eight of twelve blocks", waveform,
          768, 8, 12, 1.0)
published("fast_speech_2", "2020-06", "Ren et al., FastSpeech 2", fast_speech)
published("hifi_gan", "2020-10", "Kong et al., HiFi-GAN",
          lambda: of(Vocoder(256, (8, 8, 2, 2)), 1, 80, 24))
published("ast", "2021-04", "Gong et al., Audio spectrogram transformer, narrowed", audio_patches)
published("hubert", "2021-06", "Hsu et al., HuBERT, narrowed", waveform, 512, 8, 8, 1.5)
published("whisper_tiny", "2022-09", "Radford et al., Whisper", spectrogram, 384, 4, 6, 1500)
published("whisper_base", "2022-09", "Radford et al., Whisper", spectrogram, 512, 6, 8, 1000)
published("encodec", "2022-10", "Défossez et al., Neural audio compression", codec)
published("moonshine_tiny", "2024-10", "Jeffries et al., Moonshine", raw_encoder)
