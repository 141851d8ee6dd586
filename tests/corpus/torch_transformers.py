"""The transformers among the networks of :mod:`torch_networks`, which has their factories."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# -- vision transformers --------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(x.transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, dim: int = 64, depth: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, dim, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, dim))
        self.positions = nn.Parameter(torch.randn(1, 17, dim))
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class WindowAttention(nn.Module):
    """With a relative position bias, and a mask where windows are shifted."""

    def __init__(self, dim: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.1)
        ys, xs = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        points = torch.stack((ys.flatten(), xs.flatten()))
        away = points[:, :, None] - points[:, None, :] + window - 1
        self.register_buffer("index", away[0] * (2 * window - 1) + away[1])

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * self.scale) @ k.transpose(-2, -1)
        scores = scores + self.bias[self.index.flatten()].view(n, n, -1).permute(2, 0, 1)
        if mask is not None:
            windows = mask.shape[0]
            scores = scores.view(b // windows, windows, self.heads, n, n) + mask[:, None]
            scores = scores.view(-1, self.heads, n, n)
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
        return self.out(x)


class SwinBlock(nn.Module):
    def __init__(self, dim: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = WindowAttention(dim, heads, window)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        mask = None
        if shift:
            region = torch.zeros(1, size, size, 1)
            bands = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for i, rows in enumerate(bands):
                for j, columns in enumerate(bands):
                    region[:, rows, columns] = 3 * i + j
            parts = self._windows(region).squeeze(-1)
            mask = (parts[:, None] != parts[:, :, None]) * -100.0
        self.register_buffer("mask", mask)

    def _windows(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        s = self.window
        x = x.view(b, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, s * s, c)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        s = self.window
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = self.attention(self._windows(y), self.mask)
        y = y.view(b, h // s, w // s, s, s, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self, dim: int = 32, window: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, dim, 4, 4)
        self.first = nn.Sequential(*(SwinBlock(dim, 2, 16, window, s) for s in (0, window // 2)))
        self.merge_norm = nn.LayerNorm(4 * dim)
        self.merge = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.second = nn.Sequential(
            *(SwinBlock(2 * dim, 4, 8, window, s) for s in (0, window // 2))
        )
        self.norm = nn.LayerNorm(2 * dim)
        self.head = nn.Linear(2 * dim, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(self.patches(x).permute(0, 2, 3, 1))
        quarters = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        x = self.second(self.merge(self.merge_norm(torch.cat(quarters, -1))))
        return self.head(self.norm(x).mean((1, 2)))


# -- language -------------------------------------------------------------------------------


class Bert(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, depth: int = 2, words: int = 500) -> None:
        super().__init__()
        self.words, self.types = nn.Embedding(words, dim), nn.Embedding(2, dim)
        self.positions = nn.Embedding(64, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.attentions = nn.ModuleList(Attention(dim, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim, eps=1e-12) for _ in range(2 * depth))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(depth)
        )
        self.pooler = nn.Linear(dim, dim)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(ids.shape[1])[None]
        x = self.words(ids) + self.positions(places) + self.types(torch.zeros_like(ids))
        x = self.norm(x)
        added = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        added = added.expand(-1, -1, ids.shape[1], -1)
        for i, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            x = self.norms[2 * i](x + attention(x, added))
            x = self.norms[2 * i + 1](x + mlp(x))
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.c_fc, self.c_out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, k_past: Tensor, v_past: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, n, c = x.shape
        heads = [
            part.view(b, n, self.heads, c // self.heads).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(c, dim=2)
        ]
        k, v = torch.cat((k_past, heads[1]), 2), torch.cat((v_past, heads[2]), 2)
        y = F.scaled_dot_product_attention(heads[0], k, v)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, n, c))
        y = self.c_fc(self.ln_2(x))
        # GPT-2's own spelling of GELU
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y.pow(3))))
        return x + self.c_out(y), k, v


class Gpt2(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, depth: int = 2, words: int = 500) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, dim), nn.Embedding(64, dim)
        self.blocks = nn.ModuleList(Gpt2Block(dim, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: Tensor, places: Tensor, cache: tuple[Tensor, ...]):
        x = self.wte(ids) + self.wpe(places)
        present = []
        for i, block in enumerate(self.blocks):
            x, k, v = block(x, cache[2 * i], cache[2 * i + 1])
            present += [k, v]
        return self.head(self.ln_f(x)), tuple(present)


class LlamaBlock(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, dim // heads
        self.norm1, self.norm2 = nn.RMSNorm(dim, eps=1e-5), nn.RMSNorm(dim, eps=1e-5)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, kv_heads * self.size, bias=False)
        self.v = nn.Linear(dim, kv_heads * self.size, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.gate, self.up = (nn.Linear(dim, 3 * dim, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * dim, dim, bias=False)

    @staticmethod
    def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, c = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, n, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(b, n, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(y).view(b, n, self.kv_heads, self.size).transpose(1, 2)
        q, k = self._rotated(q, cos, sin), self._rotated(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(
        self, dim: int = 64, heads: int = 4, kv_heads: int = 2, depth: int = 2, words: int = 500
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, dim)
        self.blocks = nn.ModuleList(LlamaBlock(dim, heads, kv_heads) for _ in range(depth))
        self.norm = nn.RMSNorm(dim, eps=1e-5)
        self.head = nn.Linear(dim, words, bias=False)
        size = dim // heads
        self.register_buffer("frequencies", 1 / 10000 ** (torch.arange(0, size, 2) / size))

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], dtype=torch.float32)
        angles = torch.outer(places, self.frequencies)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos(), angles.sin()
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


# -- speech -------------------------------------------------------------------------------


class WhisperEncoder(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, depth: int = 2, length: int = 50) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(80, dim, 3, 1, 1), nn.Conv1d(dim, dim, 3, 2, 1)
        waves = torch.exp(-math.log(10000) / (dim // 2 - 1) * torch.arange(dim // 2))
        angles = torch.arange(length)[:, None] * waves
        self.register_buffer("positions", torch.cat((angles.sin(), angles.cos()), 1))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).permute(0, 2, 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
