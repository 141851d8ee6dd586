"""Encoders and decoders of text."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Attention, Block, First, Positions, Residual, RMSNorm, mlp, tokens
from .registry import network


@network("text")
def encoder() -> tuple[nn.Module, Tensor]:
    """Six blocks with normalizations after the layers, and a classifier."""
    blocks = [Block(512, 8, before=False) for _ in range(6)]
    return nn.Sequential(
        nn.Embedding(8000, 512), Positions(128, 512), nn.LayerNorm(512), *blocks, First(),
        nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 2),
    ), tokens(128, 8000)  # fmt: skip


@network("text")
def deep_encoder() -> tuple[nn.Module, Tensor]:
    """Twelve narrow blocks that score each word of a long text."""
    blocks = [Block(256, 4, before=False) for _ in range(12)]
    return nn.Sequential(
        nn.Embedding(12000, 256), Positions(384, 256), nn.LayerNorm(256), *blocks,
        nn.Linear(256, 12000),
    ), tokens(384, 12000)  # fmt: skip


class Shared(nn.Module):
    """One block that is applied several times."""

    def __init__(self, block: nn.Module, times: int) -> None:
        super().__init__()
        self.block, self.times = block, times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            x = self.block(x)
        return x


@network("text")
def shared_encoder() -> tuple[nn.Module, Tensor]:
    """One wide block eight times, after a factored embedding."""
    return nn.Sequential(
        nn.Embedding(16000, 128), Positions(64, 128), nn.LayerNorm(128), nn.Linear(128, 768),
        Shared(Block(768, 12, before=False), 8), First(), nn.Linear(768, 3),
    ), tokens(64, 16000)  # fmt: skip


class RelativeBias(nn.Module):
    """A bias for each distance of positions, in growing buckets, for each head."""

    def __init__(self, heads: int, length: int, buckets: int = 32) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        distance = torch.arange(length)[None] - torch.arange(length)[:, None]
        far = distance.abs().clamp(min=1).float().log2().mul(2).long()
        bucket = torch.where(distance.abs() < 8, distance.abs(), far + 2).clamp(
            max=buckets // 2 - 1
        )
        self.register_buffer("bucket", bucket + (distance > 0) * (buckets // 2))

    def forward(self) -> Tensor:
        return self.table(self.bucket).permute(2, 0, 1)[None]


class Gated(nn.Module):
    """The product of two projections, one of them activated, projected back."""

    def __init__(self, width: int, inner: int, activation: nn.Module) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, False), nn.Linear(width, inner, False)
        self.down, self.activation = nn.Linear(inner, width, False), activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Relative(nn.Module):
    """An encoder with biases of distances, which all of its blocks share."""

    def __init__(self, width: int, heads: int, depth: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.embed, self.bias = nn.Embedding(vocabulary, width), RelativeBias(heads, length)
        self.attentions = nn.ModuleList(Attention(width, heads, bias=False) for _ in range(depth))
        self.forths = nn.ModuleList(
            Residual(RMSNorm(width), Gated(width, 5 * width // 2, nn.GELU("tanh")))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(depth + 1))

    def forward(self, text: Tensor) -> Tensor:
        x, bias = self.embed(text), self.bias()
        for attention, forth, norm in zip(self.attentions, self.forths, self.norms, strict=False):
            x = forth(x + attention(norm(x), bias=bias))
        return self.norms[-1](x)


@network("text")
def relative_encoder() -> tuple[nn.Module, Tensor]:
    """An encoder with biases of distances and gated layers."""
    return Relative(384, 6, 8, 160, 6000), tokens(160, 6000)


class Translator(nn.Module):
    """An encoder of one text, and a decoder of another that attends to it."""

    def __init__(self, width: int, heads: int, depth: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocabulary, width), Positions(length, width)
        self.encoder = nn.Sequential(*(Block(width, heads, activation=nn.ReLU)
                                       for _ in range(depth)))  # fmt: skip
        self.selves = nn.ModuleList(
            Residual(nn.LayerNorm(width), Attention(width, heads, causal=True))
            for _ in range(depth)
        )
        self.crosses = nn.ModuleList(Attention(width, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.forths = nn.ModuleList(
            Residual(nn.LayerNorm(width), mlp(width, 4 * width, width)) for _ in range(depth)
        )
        self.head = nn.Linear(width, vocabulary, False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        seen = self.encoder(self.positions(self.embed(source)))
        x = self.positions(self.embed(target))
        for own, cross, norm, forth in zip(
            self.selves, self.crosses, self.norms, self.forths, strict=True
        ):
            x = own(x)
            x = forth(x + cross(norm(x), seen))
        return self.head(x[:, -1])


@network("text")
def translator() -> tuple[nn.Module, Tensor, Tensor]:
    """An encoder and a decoder for translation."""
    return Translator(384, 6, 4, 96, 6000), tokens(96, 6000), tokens(96, 6000)


@network("text")
def causal_decoder() -> tuple[nn.Module, Tensor]:
    """A decoder with learned positions that reads a prompt."""
    blocks = [Block(512, 8, causal=True, activation=lambda: nn.GELU("tanh")) for _ in range(6)]
    return nn.Sequential(
        nn.Embedding(6000, 512), Positions(192, 512), *blocks, nn.LayerNorm(512),
        nn.Linear(512, 6000, False),
    ), tokens(192, 6000)  # fmt: skip


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Queries or keys, turned by angles that grow with their positions."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Rotary(nn.Module):
    """Causal attention with rotary positions, groups of keys and a cache before them."""

    def __init__(self, width: int, heads: int, key_heads: int, past: int, new: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.part = heads, key_heads, width // heads
        self.query = nn.Linear(width, width, False)
        self.key = nn.Linear(width, key_heads * self.part, False)
        self.value = nn.Linear(width, key_heads * self.part, False)
        self.out = nn.Linear(width, width, False)
        steps = 10000.0 ** (-torch.arange(0, self.part, 2) / self.part)
        angles = torch.outer(torch.arange(past, past + new).float(), steps).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("seen", torch.ones(new, past + new, dtype=torch.bool).tril(past))

    def forward(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        query, key, value = (
            layer(x).unflatten(-1, (-1, self.part)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        query, key = rotated(query, self.cos, self.sin), rotated(key, self.cos, self.sin)
        cache = torch.stack([key, value])
        if past is not None:
            cache = torch.cat([past, cache], 3)
        key, value = cache.repeat_interleave(self.heads // self.key_heads, 2).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, self.seen)
        return self.out(mixed.transpose(1, 2).flatten(2)), cache


class Decoder(nn.Module):
    """A decoder of gated blocks with rotary positions, which returns its cache."""

    def __init__(
        self,
        width: int,
        heads: int,
        key_heads: int,
        inner: int,
        depth: int,
        vocabulary: int,
        past: int,
        new: int,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.attentions = nn.ModuleList(
            Rotary(width, heads, key_heads, past, new) for _ in range(depth)
        )
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(depth + 1))
        self.forths = nn.ModuleList(
            Residual(RMSNorm(width), Gated(width, inner, nn.SiLU())) for _ in range(depth)
        )
        self.head = nn.Linear(width, vocabulary, False)

    def forward(self, text: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, caches = self.embed(text), []
        for i, (attention, forth) in enumerate(zip(self.attentions, self.forths, strict=True)):
            mixed, cache = attention(self.norms[i](x), None if past is None else past[i])
            caches.append(cache)
            x = forth(x + mixed)
        return self.head(self.norms[-1](x[:, -1])), torch.stack(caches)


@network("text")
def rotary_prompt() -> tuple[nn.Module, Tensor]:
    """A decoder with rotary positions and grouped keys that reads a prompt."""
    return Decoder(512, 8, 2, 1408, 6, 6000, 0, 128), tokens(128, 6000)


@network("text")
def rotary_token() -> tuple[nn.Module, Tensor, Tensor]:
    """A wider decoder that reads one token after 255 others."""
    past = torch.randn(6, 2, 1, 4, 255, 64)
    return Decoder(768, 12, 4, 2048, 6, 6000, 255, 1), tokens(1, 6000), past


class Slopes(nn.Module):
    """Causal attention with a bias that falls with the distance, other for each head."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        distance = torch.arange(length)[None] - torch.arange(length)[:, None]
        bias = slopes[:, None, None] * distance
        self.register_buffer("bias", bias.masked_fill(distance > 0, -1e9)[None])

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, bias=self.bias)


@network("text")
def sloped_decoder() -> tuple[nn.Module, Tensor]:
    """A decoder whose positions are biases that fall with the distance."""
    layers: list[nn.Module] = [nn.Embedding(6000, 448), nn.LayerNorm(448)]
    for _ in range(7):
        layers.append(Residual(nn.LayerNorm(448), Slopes(448, 7, 160)))
        forth = mlp(448, 1792, 448, activation=lambda: nn.GELU("tanh"))
        layers.append(Residual(nn.LayerNorm(448), forth))
    return nn.Sequential(*layers, nn.LayerNorm(448), nn.Linear(448, 6000)), tokens(160, 6000)


class Experts(nn.Module):
    """A mixture of all experts, weighted by a router that keeps the best two."""

    def __init__(self, width: int, inner: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, False)
        self.up = nn.Parameter(torch.randn(count, width, inner) * width**-0.5)
        self.down = nn.Parameter(torch.randn(count, inner, width) * inner**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x).softmax(-1)
        best, chosen = scores.topk(2, -1)
        weights = torch.zeros_like(scores).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        inner = F.silu(torch.einsum("btd,edi->ebti", x, self.up))
        return torch.einsum("ebti,eid,bte->btd", inner, self.down, weights)


@network("text")
def experts() -> tuple[nn.Module, Tensor]:
    """Blocks of attention and mixtures of eight experts."""
    layers: list[nn.Module] = [nn.Embedding(6000, 320), Positions(64, 320)]
    for _ in range(4):
        layers.append(Residual(RMSNorm(320), Attention(320, 5, causal=True)))
        layers.append(Residual(RMSNorm(320), Experts(320, 640, 8)))
    return nn.Sequential(*layers, RMSNorm(320), nn.Linear(320, 6000, False)), tokens(64, 6000)


class StateSpace(nn.Module):
    """A gated block whose state is carried over the positions, one step each."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        inner = 2 * width
        self.inner, self.states, self.rank = inner, states, width // 16
        self.inward = nn.Linear(width, 2 * inner, False)
        self.local = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.select = nn.Linear(inner, self.rank + 2 * states, False)
        self.step = nn.Linear(self.rank, inner)
        self.decay = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.outward = nn.Linear(inner, width, False)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        x, gate = self.inward(x).chunk(2, -1)
        x = F.silu(self.local(x.transpose(1, 2))[..., :length].transpose(1, 2))
        step, enter, leave = self.select(x).split([self.rank, self.states, self.states], -1)
        step = F.softplus(self.step(step)).unsqueeze(-1)
        kept = torch.exp(-step * self.decay.exp())
        added = step * x.unsqueeze(-1) * enter.unsqueeze(2)
        state, found = added[:, 0], []
        for i in range(length):
            if i:
                state = state * kept[:, i] + added[:, i]
            found.append((state * leave[:, i, None]).sum(-1))
        y = torch.stack(found, 1) + x * self.skip
        return self.outward(y * F.silu(gate))


@network("text")
def state_space() -> tuple[nn.Module, Tensor]:
    """Blocks with a selective state, unrolled over a short text."""
    blocks = [Residual(RMSNorm(256), StateSpace(256, 16)) for _ in range(4)]
    return nn.Sequential(
        nn.Embedding(6000, 256), *blocks, RMSNorm(256), nn.Linear(256, 6000, False)
    ), tokens(24, 6000)


class Fourier(nn.Module):
    """Real part of the Fourier transform over positions and channels, by two products."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        for name, size in (("positions", length), ("channels", width)):
            angles = torch.outer(torch.arange(size), torch.arange(size)) * (2 * torch.pi / size)
            self.register_buffer(f"{name}_cos", angles.cos() * size**-0.5)
            self.register_buffer(f"{name}_sin", angles.sin() * size**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        real, imaginary = x @ self.channels_cos, x @ self.channels_sin
        return self.positions_cos @ real - self.positions_sin @ imaginary


@network("text")
def fourier_encoder() -> tuple[nn.Module, Tensor]:
    """An encoder that mixes its positions by Fourier transforms."""
    layers: list[nn.Module] = [nn.Embedding(6000, 384), Positions(192, 384)]
    for _ in range(6):
        layers += [Residual(Fourier(192, 384)), nn.LayerNorm(384)]
        layers += [Residual(mlp(384, 1536, 384, activation=nn.GELU)), nn.LayerNorm(384)]
    return nn.Sequential(*layers, First(), nn.Linear(384, 5)), tokens(192, 6000)


class Convolved(nn.Module):
    """Convolutions of several widths over a text, of which the largest values are kept."""

    def __init__(self, width: int, kernels: tuple[int, ...], channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(width, channels, k) for k in kernels)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        return torch.cat([F.relu(layer(x)).amax(-1) for layer in self.convolutions], 1)


@network("text")
def text_convolutions() -> tuple[nn.Module, Tensor]:
    """Convolutions of several widths over a text's words."""
    return nn.Sequential(
        nn.Embedding(20000, 300), Convolved(300, (3, 4, 5), 256), nn.Linear(768, 20)
    ), tokens(256, 20000)
