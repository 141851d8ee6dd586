"""Networks that read and write text; words are cut to some thousands where they weigh much."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..layers import (
    Activation,
    Attention,
    Block,
    First,
    Mean,
    Positions,
    Residual,
    RMSNorm,
    mlp,
    tokens,
)
from ..science import Linearized
from ..series import Last, Sequence
from ..text import (
    Convolved,
    Decoder,
    Experts,
    Fourier,
    Gated,
    Relative,
    Rotary,
    Shared,
    Slopes,
    StateSpace,
    Translator,
)
from .registry import published

Built = tuple[nn.Module, *tuple[Tensor, ...]]

WORDS = 8000
"""Words of vocabularies that are cut."""


def sentence_convolutions() -> Built:
    """Convolutions of several widths over the words of a sentence."""
    return nn.Sequential(
        nn.Embedding(20000, 300), Convolved(300, (3, 4, 5), 100), nn.Linear(300, 2)
    ), tokens(64, 20000)


def characters() -> Built:
    """Convolutions over the characters of a text."""
    layers: list[nn.Module] = []
    width = 70
    for kernel, pooled in ((7, True), (7, True), (3, False), (3, False), (3, False), (3, True)):
        layers += [nn.Conv1d(width, 256, kernel), nn.ReLU()]
        layers += [nn.MaxPool1d(3)] if pooled else []
        width = 256
    layers += [nn.Flatten(), nn.Linear(256 * 34, 1024), nn.ReLU(), nn.Linear(1024, 1024)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(1024, 4)), torch.randn(1, 70, 1014)


def recurrent(kind: str, width: int, depth: int, length: int, words: int, two: bool) -> Built:
    """Recurrent layers over words, in one direction or two."""
    layer = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](
        width, width, depth, batch_first=True, bidirectional=two
    )
    return nn.Sequential(
        nn.Embedding(words, width), Sequence(layer), nn.Linear((1 + two) * width, words)
    ), tokens(length, words)  # fmt: skip


class Attentive(nn.Module):
    """An encoder and a decoder of LSTM layers, with attention to the encoder's outputs."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, width, 2, batch_first=True)
        self.decoder = nn.LSTM(width, width, 2, batch_first=True)
        self.join, self.head = nn.Linear(2 * width, width), nn.Linear(width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        seen = self.encoder(self.embed(source))[0]
        y = self.decoder(self.embed(target))[0]
        context = (y @ seen.transpose(1, 2)).softmax(-1) @ seen
        return self.head(self.join(torch.cat([y, context], -1)).tanh())


def attentive() -> Built:
    """Translation by LSTM layers with attention."""
    return Attentive(384, WORDS), tokens(32, WORDS), tokens(32, WORDS)


class GatedConvolution(nn.Module):
    """A convolution with a gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Conv1d(width, 2 * width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(self.layer(x.transpose(1, 2)), 1).transpose(1, 2)


def convolutional_encoder() -> Built:
    """Gated convolutions over a sentence."""
    layers = [Residual(GatedConvolution(512)) for _ in range(8)]
    return nn.Sequential(
        nn.Embedding(WORDS, 512), Positions(64, 512), *layers, nn.Linear(512, WORDS)
    ), tokens(64, WORDS)  # fmt: skip


def unequal_lstm() -> Built:
    """Three LSTM layers of unequal widths that predict words."""
    return nn.Sequential(
        nn.Embedding(WORDS, 400), Sequence(nn.LSTM(400, 1150, batch_first=True)),
        Sequence(nn.LSTM(1150, 1150, batch_first=True)),
        Sequence(nn.LSTM(1150, 400, batch_first=True)), Last(), nn.Linear(400, WORDS),
    ), tokens(35, WORDS)  # fmt: skip


def averaged() -> Built:
    """The mean of a text's embeddings, and linear layers."""
    return nn.Sequential(
        nn.Embedding(50000, 300), Mean(), mlp(300, 300, 300, 20)
    ), tokens(200, 50000)  # fmt: skip


def translator(width: int, heads: int, depth: int, length: int) -> Built:
    """A transformer for translation."""
    return Translator(width, heads, depth, length, WORDS), tokens(length, WORDS), tokens(
        length, WORDS
    )  # fmt: skip


def encoder(
    width: int,
    depth: int,
    heads: int,
    inner: int | None = None,
    length: int = 128,
    words: int = 30522,
    embedded: int | None = None,
    times: int = 1,
    before: bool = False,
) -> Built:
    """A transformer with learned positions, and a pooler.

    Args:
        width: Width of the blocks.
        depth: Number of different blocks.
        heads: Heads of attention.
        inner: Width within the MLPs.
        length: Words of the text.
        words: Words of the vocabulary.
        embedded: Width of the embedding.
        times: How often each block is applied.
        before: Whether the normalizations come before the layers.
    """
    narrow = embedded or width
    wider = [nn.Linear(narrow, width)] if narrow != width else []
    blocks = [Shared(Block(width, heads, inner, before=before), times) for _ in range(depth)]
    return nn.Sequential(
        nn.Embedding(words, narrow), Positions(length, narrow), nn.LayerNorm(narrow), *wider,
        *blocks, First(), nn.Linear(width, width), nn.Tanh(),
    ), tokens(length, words)  # fmt: skip


class Bottled(nn.Module):
    """A block whose attention and four MLPs are narrower than its input."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(width, inner), nn.Linear(inner, width)
        layers: list[nn.Module] = [Residual(Attention(inner, 4))]
        layers += [Residual(mlp(inner, 4 * inner, inner)) for _ in range(4)]
        self.body = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.wide(self.body(self.narrow(x)))


def mobilebert() -> Built:
    """Narrow blocks within wide ones."""
    blocks = [Bottled(512, 128) for _ in range(24)]
    return nn.Sequential(
        nn.Embedding(30522, 128), Positions(128, 128), nn.Linear(128, 512), *blocks, First()
    ), tokens(128, 30522)


class Grouped(nn.Module):
    """A block whose projections are convolutions of four groups."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.Conv1d(width, 3 * width, 1, groups=4)
        self.out = nn.Conv1d(width, width, 1)
        self.forth = nn.Sequential(
            nn.Conv1d(width, 4 * width, 1, groups=4), nn.GELU(),
            nn.Conv1d(4 * width, width, 1, groups=4),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.projections(x).unflatten(1, (3, self.heads, -1)).unbind(1)
        scores = (query.transpose(-1, -2) @ key * query.shape[2] ** -0.5).softmax(-1)
        x = x + self.out((value @ scores.transpose(-1, -2)).flatten(1, 2))
        return x + self.forth(x)


def squeezebert() -> Built:
    """Blocks of grouped convolutions over the words."""

    class Swapped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.transpose(1, 2)

    blocks = [Grouped(768, 12) for _ in range(12)]
    return nn.Sequential(
        nn.Embedding(WORDS, 768), Positions(128, 768), Swapped(), *blocks, nn.AdaptiveAvgPool1d(1)
    ), tokens(128, WORDS)


class Banded(nn.Module):
    """Attention of each chunk of positions to itself and its neighbours."""

    def __init__(self, width: int, heads: int, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.attention = Attention(width, heads)

    def forward(self, x: Tensor) -> Tensor:
        chunks = x.unflatten(1, (-1, self.chunk))
        padded = F.pad(chunks, (0, 0, 0, 0, 1, 1))
        near = torch.cat([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]], 2)
        return self.attention(chunks[0], near[0]).view_as(x)


class Compressed(nn.Module):
    """Attention to keys and values that a projection has shortened."""

    def __init__(self, width: int, heads: int, length: int, short: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.shorten = nn.Linear(length, short, False)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, self.shorten(x.transpose(1, 2)).transpose(1, 2))


def long_encoder(kind: str, width: int, depth: int, heads: int, length: int) -> Built:
    """A transformer for long texts, whose attention costs less than all pairs."""

    def mixing() -> nn.Module:
        if kind == "banded":
            return Banded(width, heads, 64)
        if kind == "compressed":
            return Compressed(width, heads, length, 128)
        return Linearized(width, heads) if kind == "linear" else Fourier(length, width)

    layers: list[nn.Module] = [nn.Embedding(WORDS, width), Positions(length, width)]
    for _ in range(depth):
        layers += [Residual(mixing()), nn.LayerNorm(width)]
        layers += [Residual(mlp(width, 4 * width, width, activation=nn.GELU)), nn.LayerNorm(width)]
    return nn.Sequential(*layers, First()), tokens(length, WORDS)


def relative(width: int, heads: int, depth: int, length: int = 128) -> Built:
    """An encoder with biases of distances and gated layers."""
    return Relative(width, heads, depth, length, WORDS), tokens(length, WORDS)


def tanh_gelu() -> nn.Module:
    """GELU as decoders compute it."""
    return nn.GELU("tanh")


def decoder(
    width: int, depth: int, heads: int, length: int = 64, activation: Activation = tanh_gelu
) -> Built:
    """A decoder with learned positions that reads a prompt."""
    blocks = [Block(width, heads, causal=True, activation=activation) for _ in range(depth)]
    return nn.Sequential(
        nn.Embedding(WORDS, width), Positions(length, width), *blocks, nn.LayerNorm(width), Last(),
        nn.Linear(width, WORDS, False),
    ), tokens(length, WORDS)  # fmt: skip


def sloped(width: int, depth: int, heads: int, length: int = 64) -> Built:
    """A decoder whose positions are biases that fall with the distance."""
    layers: list[nn.Module] = [nn.Embedding(WORDS, width), nn.LayerNorm(width)]
    for _ in range(depth):
        layers.append(Residual(nn.LayerNorm(width), Slopes(width, heads, length)))
        forth = mlp(width, 4 * width, width, activation=tanh_gelu)
        layers.append(Residual(nn.LayerNorm(width), forth))
    return nn.Sequential(*layers, nn.LayerNorm(width), Last(), nn.Linear(width, WORDS, False)), (
        tokens(length, WORDS)
    )


def rotary(
    width: int, depth: int, heads: int, key_heads: int, inner: int, past: int = 0, new: int = 64
) -> Built:
    """A decoder of gated blocks with rotary positions, for a prompt or one token more."""
    module = Decoder(width, heads, key_heads, inner, depth, WORDS, past, new)
    cache = [torch.randn(depth, 2, 1, key_heads, past, width // heads)] if past else []
    return module, tokens(new, WORDS), *cache


class Side(nn.Module):
    """A block whose attention and MLP see the same input."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Rotary(width, heads, heads, 0, length)
        self.forth = mlp(width, 4 * width, width, activation=nn.GELU)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.first(x), None)[0] + self.forth(self.second(x))


def parallel(width: int, depth: int, heads: int, length: int = 64) -> Built:
    """A decoder of parallel blocks with rotary positions."""
    blocks = [Side(width, heads, length) for _ in range(depth)]
    return nn.Sequential(
        nn.Embedding(WORDS, width), *blocks, nn.LayerNorm(width), Last(),
        nn.Linear(width, WORDS, False),
    ), tokens(length, WORDS)  # fmt: skip


def modern_encoder() -> Built:
    """An encoder with gated layers, of which two in three see neighbours only."""
    layers: list[nn.Module] = [nn.Embedding(WORDS, 768), nn.LayerNorm(768)]
    for i in range(9):
        attention = Attention(768, 12, bias=False) if i % 3 == 0 else Banded(768, 12, 64)
        layers.append(Residual(nn.LayerNorm(768), attention))
        layers.append(Residual(nn.LayerNorm(768), Gated(768, 1152, nn.GELU())))
    return nn.Sequential(*layers, nn.LayerNorm(768), Mean()), tokens(256, WORDS)


def experts(width: int, inner: int, count: int, depth: int) -> Built:
    """A decoder with mixtures of experts."""
    layers: list[nn.Module] = [nn.Embedding(WORDS, width), Positions(32, width)]
    for _ in range(depth):
        layers.append(Residual(RMSNorm(width), Attention(width, 8, causal=True, key_heads=2)))
        layers.append(Residual(RMSNorm(width), Experts(width, inner, count)))
    return nn.Sequential(*layers, RMSNorm(width), Last(), nn.Linear(width, WORDS, False)), tokens(
        32, WORDS
    )


def states(width: int, depth: int, length: int) -> Built:
    """Blocks with a selective state, unrolled over a short text."""
    blocks = [Residual(RMSNorm(width), StateSpace(width, 16)) for _ in range(depth)]
    return nn.Sequential(
        nn.Embedding(WORDS, width), *blocks, RMSNorm(width), Last(), nn.Linear(width, WORDS, False)
    ), tokens(length, WORDS)


class Retention(nn.Module):
    """Attention without a softmax, whose weights decay with the distance."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections, self.gate = nn.Linear(width, 3 * width, False), nn.Linear(width, width)
        self.norm, self.out = nn.GroupNorm(heads, width), nn.Linear(width, width, False)
        decay = 1 - 2.0 ** (-5 - torch.arange(heads).float())
        distance = torch.arange(length)[:, None] - torch.arange(length)[None]
        weights = decay[:, None, None] ** distance.clamp(min=0)
        self.register_buffer("weights", weights * (distance >= 0))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.projections(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = query @ key.transpose(-1, -2) * self.weights @ value
        mixed = mixed.transpose(1, 2).flatten(2)
        normal = self.norm(mixed.transpose(1, 2)).transpose(1, 2)
        return self.out(F.silu(self.gate(x)) * normal)


def retentive() -> Built:
    """A decoder with retention."""
    layers: list[nn.Module] = [nn.Embedding(WORDS, 512)]
    for _ in range(8):
        layers.append(Residual(RMSNorm(512), Retention(512, 8, 64)))
        layers.append(Residual(RMSNorm(512), Gated(512, 1024, nn.SiLU())))
    return nn.Sequential(*layers, RMSNorm(512), Last(), nn.Linear(512, WORDS)), tokens(64, WORDS)


class Weighted(nn.Module):
    """Keys and values weighted by decays of their own, one step for each position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.decay, self.bonus = (nn.Parameter(torch.rand(width)) for _ in range(2))
        self.projections = nn.Linear(width, 3 * width, False)
        self.out = nn.Linear(width, width, False)

    def forward(self, x: Tensor) -> Tensor:
        gate, key, value = self.projections(x).chunk(3, -1)
        key, decay = key.exp(), (-self.decay.exp()).exp()
        above, below, found = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0]), []
        for i in range(x.shape[1]):
            own = key[:, i] * self.bonus.exp()
            found.append((above + own * value[:, i]) / (below + own))
            above, below = decay * above + key[:, i] * value[:, i], decay * below + key[:, i]
        return self.out(gate.sigmoid() * torch.stack(found, 1))


def weighted() -> Built:
    """A decoder whose keys decay with time, unrolled over a short text."""
    layers: list[nn.Module] = [nn.Embedding(WORDS, 512)]
    for _ in range(6):
        layers.append(Residual(nn.LayerNorm(512), Weighted(512)))
        layers.append(Residual(nn.LayerNorm(512), mlp(512, 2048, 512)))
    return nn.Sequential(*layers, nn.LayerNorm(512), Last(), nn.Linear(512, WORDS)), tokens(
        16, WORDS
    )


_BERT = "Devlin et al., BERT"
_SMALL = "Turc et al., Well-read students learn better"

# fmt: off
published("gru_encoder", "2014-06", "Cho et al., RNN encoder-decoder", recurrent, "gru", 512, 1, 30,
          WORDS, False)
published("sentence_cnn", "2014-08", "Kim, Convolutional networks for sentences",
          sentence_convolutions)
published("attentive_lstm", "2014-09", "Bahdanau et al., Learning to align and translate",
          attentive)
published("lstm_medium", "2014-09", "Zaremba et al., Recurrent network regularization", recurrent,
          "lstm", 650, 2, 35, 10000, False)
published("bilstm_tagger", "2015-08", "Huang et al., Bidirectional LSTM-CRF", recurrent, "lstm",
          200, 1, 50, 5000, True)
published("character_cnn", "2015-09", "Zhang et al., Character-level networks", characters)
published("averaged_words", "2016-07", "Joulin et al., Bag of tricks", averaged)
published("convolutional_s2s", "2017-05", "Gehring et al., Convolutional sequences",
          convolutional_encoder)
published("transformer_base", "2017-06", "Vaswani et al., Attention is all you need", translator,
          512, 8, 6, 48)
published("awd_lstm", "2017-08", "Merity et al., Regularizing LSTM language models",
          unequal_lstm)
published("elmo", "2018-02", "Peters et al., Contextualized word representations", recurrent,
          "lstm", 512, 2, 40, WORDS, True)
published("gpt", "2018-06", "Radford et al., Generative pre-training", decoder, 768, 12, 12)
published("bert_base", "2018-10", f"{_BERT}, without three of its blocks", encoder, 768, 9, 12)
published("gpt2", "2019-02", "Radford et al., Unsupervised multitask learners", decoder, 768, 12,
          12, 128)
published("roberta_base", "2019-07", "Liu et al., RoBERTa", encoder, 768, 12, 12, words=WORDS)
published("bert_tiny", "2019-08", _SMALL, encoder, 128, 2, 2)
published("bert_mini", "2019-08", _SMALL, encoder, 256, 4, 4)
published("bert_small", "2019-08", _SMALL, encoder, 512, 4, 8)
published("bert_medium", "2019-08", _SMALL, encoder, 512, 8, 8)
published("tinybert", "2019-09", "Jiao et al., TinyBERT", encoder, 312, 4, 12, 1200)
published("albert_base", "2019-09", "Lan et al., ALBERT", encoder, 768, 1, 12, words=30000,
          embedded=128, times=12)
published("distilbert", "2019-10", "Sanh et al., DistilBERT", encoder, 768, 6, 12)
published("t5_small", "2019-10", "Raffel et al., Exploring transfer learning", relative, 512, 8, 6)
published("bart_base", "2019-10", "Lewis et al., BART", translator, 768, 12, 4, 64)
published("minilm", "2020-02", "Wang et al., MiniLM", encoder, 384, 6, 12)
published("electra_small", "2020-03", "Clark et al., ELECTRA", encoder, 256, 12, 4, embedded=128)
published("mobilebert", "2020-04", "Sun et al., MobileBERT", mobilebert)
published("longformer", "2020-04", "Beltagy et al., Longformer", long_encoder, "banded", 512, 6, 8,
          1024)
published("linformer", "2020-06", "Wang et al., Linformer", long_encoder, "compressed", 512, 6, 8,
          512)
published("linear_transformer", "2020-06", "Katharopoulos et al., Transformers are RNNs",
          long_encoder, "linear", 512, 6, 8, 512)
published("squeezebert", "2020-06", "Iandola et al., SqueezeBERT", squeezebert)
published("gpt_neo_125m", "2021-03", "Black et al., GPT-Neo", decoder, 768, 12, 12, 96)
published("fnet", "2021-05", "Lee-Thorp et al., Mixing tokens with Fourier transforms",
          long_encoder, "fourier", 768, 8, 12, 256)
published("opt_125m", "2022-05", "Zhang et al., OPT", decoder, 768, 12, 12, 48, nn.ReLU)
published("bloom_560m", "2022-11", "Scao et al., BLOOM, five of 24 blocks", sloped, 1024, 5, 16)
published("llama_7b_block", "2023-02", "Touvron et al., LLaMA, at a third of its width", rotary,
          1344, 2, 16, 16, 3584)
published("pythia_70m", "2023-04", "Biderman et al., Pythia", parallel, 512, 6, 8)
published("pythia_160m", "2023-04", "Biderman et al., Pythia", parallel, 768, 8, 12)
published("rwkv", "2023-05", "Peng et al., RWKV", weighted)
published("retnet", "2023-07", "Sun et al., Retentive network", retentive)
published("llama2_token", "2023-07", "Touvron et al., Llama 2, narrowed, one token", rotary, 1024,
          4, 16, 16, 2752, 127, 1)
published("mistral_token", "2023-10", "Jiang et al., Mistral, narrowed, one token", rotary, 1024, 4,
          16, 4, 3584, 255, 1)
published("mamba_130m", "2023-12", "Gu and Dao, Mamba, four of 24 blocks", states, 768, 4, 12)
published("mixtral", "2024-01", "Jiang et al., Mixtral of experts, narrowed", experts, 512, 896, 8,
          4)
published("tinyllama", "2024-01", "Zhang et al., TinyLlama, one of 22 blocks", rotary, 2048, 1, 32,
          4, 5632)
published("mobilellm_125m", "2024-02", "Liu et al., MobileLLM, ten of 30 blocks", rotary, 576, 10,
          9, 3, 1536)
published("gemma_2b", "2024-03", "Gemma Team, Gemma, narrowed", rotary, 1024, 3, 8, 1, 8192)
published("smollm_135m", "2024-07", "Allal et al., SmolLM, twelve of 30 blocks", rotary, 576, 12, 9,
          3, 1536)
published("qwen2_half", "2024-07", "Yang et al., Qwen2 0.5B, five of 24 blocks", rotary, 896, 5, 14,
          2, 4864)
published("llama3_2_1b", "2024-09", "Dubey et al., Llama 3.2, one of 16 blocks", rotary, 2048, 1,
          32, 8, 8192)
published("qwen2_5_half_token", "2024-09", "Yang et al., Qwen2.5 0.5B, five blocks, one token",
          rotary, 896, 5, 14, 2, 4864, 511, 1)
published("modernbert", "2024-12", "Warner et al., ModernBERT, nine of 22 blocks", modern_encoder)
published("gemma3_270m", "2025-08", "Gemma Team, Gemma 3, eight of 18 blocks", rotary, 640, 8, 4, 1,
          2048)
published("qwen3_0_6b", "2025-05", "Yang et al., Qwen3, four of 28 blocks", rotary, 1024, 4, 16, 8,
          3072)
published("smollm3_token", "2025-07", "Bakouch et al., SmolLM3, narrowed, one token",
          rotary, 1024, 4, 16, 4, 5504, 127, 1)
