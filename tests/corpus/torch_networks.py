"""Well-known PyTorch architectures, small, with random weights.

Every factory returns ``(module, example_inputs)``. From this folder,
``dlbricks inspect torch:torch_networks:bert`` shows one of them.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NETWORKS = ("resnet50", "vit", "swin", "bert", "gpt2_decode", "llama", "whisper_encoder", "unet",
            "lstm", "detr", "yolo")  # fmt: skip


def resnet50():
    return ResNet50(width=16), (torch.randn(1, 3, 64, 64),)


def vit():
    return ViT(), (torch.randn(1, 3, 64, 64),)


def swin():
    return Swin(), (torch.randn(1, 3, 64, 64),)


def bert():
    ids = torch.randint(0, 500, (1, 16))
    mask = torch.ones(1, 16, dtype=torch.int64)
    mask[:, 12:] = 0
    return Bert(), (ids, mask)


def gpt2_decode():
    """One step: a new token, and the keys and values of eleven earlier ones."""
    cache = tuple(torch.randn(1, 4, 11, 16) for _ in range(4))
    return Gpt2(), (torch.randint(0, 500, (1, 1)), torch.tensor([[11]]), cache)


def llama():
    return Llama(), (torch.randint(0, 500, (1, 12)),)


def whisper_encoder():
    return WhisperEncoder(), (torch.randn(1, 80, 100),)


def unet():
    return UNet(), (torch.randn(1, 4, 32, 32), torch.tensor([17]))


def lstm():
    return Tagger(), (torch.randint(0, 500, (1, 14)),)


def detr():
    return Detr(), (torch.randn(1, 3, 64, 64),)


def yolo():
    return Yolo(), (torch.randn(1, 3, 96, 96),)


# -- convolutional classifiers --------------------------------------------------------------


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet50(nn.Module):
    def __init__(self, width: int = 64, classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        stages = []
        inputs = width
        for i, depth in enumerate((3, 4, 6, 3)):
            for j in range(depth):
                stages.append(Bottleneck(inputs, width * 2**i, 2 if i and not j else 1))
                inputs = 4 * width * 2**i
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.pool(self.stages(self.stem(x))), 1))


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


class Tagger(nn.Module):
    """Two bidirectional LSTM layers over words."""

    def __init__(self, words: int = 500, dim: int = 32, hidden: int = 24) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, dim)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, 9)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.lstm(self.embedding(ids))[0])


# -- speech, images out, detection ----------------------------------------------------------


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


class UNetBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inputs), nn.Conv2d(inputs, outputs, 3, 1, 1)
        self.norm2, self.conv2 = nn.GroupNorm(4, outputs), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class UNet(nn.Module):
    """As diffusion models use it: time embedding, attention in the middle, both upsamplings."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.inlet = nn.Conv2d(4, width, 3, 1, 1)
        self.down1 = UNetBlock(width, width, time)
        self.shrink1 = nn.Conv2d(width, width, 3, 2, 1)
        self.down2 = UNetBlock(width, 2 * width, time)
        self.shrink2 = nn.AvgPool2d(2)
        self.middle = UNetBlock(2 * width, 2 * width, time)
        self.attention = nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.grow2 = nn.ConvTranspose2d(2 * width, 2 * width, 2, 2)
        self.up2 = UNetBlock(4 * width, width, time)
        self.grow1 = nn.Upsample(scale_factor=2, mode="nearest")
        self.up1 = UNetBlock(2 * width, width, time)
        self.outlet = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 4, 3, 1, 1))

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        half = self.width // 2
        waves = torch.exp(-math.log(10000) / half * torch.arange(half))
        angles = step[:, None].float() * waves
        time = self.time(torch.cat((angles.cos(), angles.sin()), 1))
        first = self.down1(self.inlet(x), time)
        second = self.down2(self.shrink1(first), time)
        y = self.middle(self.shrink2(second), time)
        b, c, h, w = y.shape
        flat = y.flatten(2).transpose(1, 2)
        y = y + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view(
            b, c, h, w
        )
        y = self.up2(torch.cat((self.grow2(y), second), 1), time)
        y = self.up1(torch.cat((self.grow1(y), first), 1), time)
        return self.outlet(y)


class Detr(nn.Module):
    """Torch's own transformer over a small backbone, with queries for objects."""

    def __init__(self, dim: int = 32, queries: int = 10) -> None:
        super().__init__()
        steps = []
        for inputs, outputs in ((3, 16), (16, 32), (32, dim)):
            steps += [
                nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            ]
        self.backbone = nn.Sequential(*steps)
        self.rows, self.columns = (nn.Parameter(torch.rand(8, dim // 2)) for _ in range(2))
        self.queries = nn.Parameter(torch.rand(queries, dim))
        self.transformer = nn.Transformer(dim, 4, 2, 2, 64, batch_first=True)
        self.classes, self.boxes = nn.Linear(dim, 12), nn.Linear(dim, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.backbone(x)
        b, _, h, w = y.shape
        places = torch.cat(
            (
                self.columns[:w].unsqueeze(0).repeat(h, 1, 1),
                self.rows[:h].unsqueeze(1).repeat(1, w, 1),
            ),
            -1,
        ).flatten(0, 1)
        y = self.transformer(
            places[None] + y.flatten(2).transpose(1, 2), self.queries[None].expand(b, -1, -1)
        )
        return self.classes(y), self.boxes(y).sigmoid()


class ConvSilu(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.bn(self.conv(x)))


class C2f(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        self.inlet = ConvSilu(inputs, outputs)
        self.blocks = nn.ModuleList(
            nn.Sequential(ConvSilu(half, half, 3), ConvSilu(half, half, 3)) for _ in range(2)
        )
        self.outlet = ConvSilu(2 * outputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.inlet(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.outlet(torch.cat(parts, 1))


class Yolo(nn.Module):
    """Backbone, pyramid pooling, two scales, and boxes decoded from distributions."""

    def __init__(self, width: int = 16, classes: int = 5, bins: int = 8) -> None:
        super().__init__()
        self.classes, self.bins = classes, bins
        self.stem = nn.Sequential(ConvSilu(3, width, 3, 2), ConvSilu(width, 2 * width, 3, 2))
        self.stage1 = nn.Sequential(C2f(2 * width, 2 * width), ConvSilu(2 * width, 4 * width, 3, 2))
        self.stage2 = nn.Sequential(C2f(4 * width, 4 * width), ConvSilu(4 * width, 4 * width, 3, 2))
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.squash = ConvSilu(16 * width, 4 * width)
        self.merge = C2f(8 * width, 4 * width)
        self.heads = nn.ModuleList(nn.Conv2d(4 * width, 4 * bins + classes, 1) for _ in range(2))
        self.register_buffer("places", torch.arange(bins, dtype=torch.float32))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.stage1(self.stem(x))
        pooled = [self.stage2(fine)]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        coarse = self.squash(torch.cat(pooled, 1))
        fine = self.merge(torch.cat((F.interpolate(coarse, scale_factor=2.0), fine), 1))
        maps = [head(y) for head, y in zip(self.heads, (fine, coarse), strict=True)]
        flat = torch.cat([y.flatten(2) for y in maps], 2)
        boxes, scores = flat.split((4 * self.bins, self.classes), 1)
        b, _, n = boxes.shape
        boxes = boxes.view(b, 4, self.bins, n).softmax(2)
        boxes = torch.einsum("bfkn,k->bfn", boxes, self.places)
        anchors = torch.cat([self._anchors(y) for y in maps], 1)
        near, far = boxes.chunk(2, 1)
        corners = torch.cat((anchors - near, anchors + far), 1)
        return corners, scores.sigmoid()

    @staticmethod
    def _anchors(y: Tensor) -> Tensor:
        h, w = y.shape[-2:]
        ys, xs = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        return torch.stack((xs.flatten(), ys.flatten()))
