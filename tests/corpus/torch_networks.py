"""Well-known PyTorch architectures, small, with random weights.

Every factory returns ``(module, example_inputs)``. From this folder,
``dlbricks show torch:torch_networks:bert`` shows one of them.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_transformers import Bert, Gpt2, Llama, Swin, ViT, WhisperEncoder

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


# -- words ----------------------------------------------------------------------------------


class Tagger(nn.Module):
    """Two bidirectional LSTM layers over words."""

    def __init__(self, words: int = 500, dim: int = 32, hidden: int = 24) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, dim)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, 9)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.lstm(self.embedding(ids))[0])


# -- images out, detection ------------------------------------------------------------------


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
