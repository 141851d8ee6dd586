"""Networks that generate or compress images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Attention, Residual, conv, image, mlp
from .registry import network


@network("autoencoders")
def autoencoder() -> tuple[nn.Module, Tensor]:
    """An image through a narrow code."""
    layers: list[nn.Module] = []
    for a, b in ((3, 32), (32, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2)]
    layers += [nn.Flatten(), nn.Linear(256 * 64, 128), nn.Linear(128, 256 * 64)]
    layers.append(nn.Unflatten(1, (256, 8, 8)))
    for a, b in ((256, 128), (128, 64), (64, 32)):
        layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid()), image(128)


class Variational(nn.Module):
    """Mean and variance of a code, and an image from a sample of it."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            conv(1, 32, 3, 2), conv(32, 64, 3, 2), conv(64, 128, 3, 2), nn.Flatten(),
            nn.Linear(128 * 64, 2 * code),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(code, 128 * 64), nn.ReLU(), nn.Unflatten(1, (128, 8, 8)),
            nn.Upsample(scale_factor=2), conv(128, 64), nn.Upsample(scale_factor=2),
            conv(64, 32), nn.Upsample(scale_factor=2), nn.Conv2d(32, 1, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = self.encoder(x).chunk(2, 1)
        code = mean + noise * (0.5 * variance).exp()
        return self.decoder(code).sigmoid(), mean, variance


@network("autoencoders")
def variational() -> tuple[nn.Module, Tensor, Tensor]:
    """A batch of images through sampled codes."""
    return Variational(64), torch.randn(4, 1, 64, 64), torch.randn(4, 64)


@network("generators")
def generator() -> tuple[nn.Module, Tensor]:
    """Transposed convolutions from noise to an image."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 512, 4, bias=False), nn.BatchNorm2d(512)]
    layers.append(nn.ReLU())
    for a, b in ((512, 256), (256, 128), (128, 64)):
        layers += [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()), torch.randn(
        1, 100, 1, 1
    )


class Styled(nn.Module):
    """A convolution whose result is scaled and shifted by a style."""

    def __init__(self, inputs: int, outputs: int, style: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm, self.style = nn.InstanceNorm2d(outputs), nn.Linear(style, 2 * outputs)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        scale, shift = self.style(style)[..., None, None].chunk(2, 1)
        return self.norm(F.leaky_relu(self.convolution(x), 0.2)) * (1 + scale) + shift


class StyleGenerator(nn.Module):
    """An image that grows from a constant, in the style of mapped noise."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.mapping = mlp(*[256] * 7, activation=lambda: nn.LeakyReLU(0.2))
        self.start = nn.Parameter(torch.randn(1, widths[0], 4, 4))
        pairs = zip([widths[0], *widths], widths, strict=False)
        self.layers = nn.ModuleList(
            nn.ModuleList([Styled(a, b, 256), Styled(b, b, 256)]) for a, b in pairs
        )
        self.colors = nn.Conv2d(widths[-1], 3, 1)

    def forward(self, noise: Tensor) -> Tensor:
        style = self.mapping(F.normalize(noise, dim=1))
        x = self.start
        for i, (first, second) in enumerate(self.layers):
            if i:
                x = F.interpolate(x, scale_factor=2, mode="bilinear")
            x = second(first(x, style), style)
        return self.colors(x)


@network("generators")
def styled_generator() -> tuple[nn.Module, Tensor]:
    """An image from a style, of growing size."""
    return StyleGenerator([256, 256, 128, 64, 32, 16]), torch.randn(1, 256)


@network("generators")
def image_translation() -> tuple[nn.Module, Tensor]:
    """An image in another style, by residual blocks with instance normalization."""

    def step(a: int, b: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [
            nn.ReflectionPad2d(kernel // 2), nn.Conv2d(a, b, kernel, stride),
            nn.InstanceNorm2d(b), nn.ReLU(),
        ]  # fmt: skip

    layers = [*step(3, 32, 7), *step(32, 64, 3, 2), *step(64, 128, 3, 2)]
    layers += [Residual(*step(128, 128, 3), *step(128, 128, 3)[:-1]) for _ in range(4)]
    for a, b in ((128, 64), (64, 32)):
        layers += [nn.ConvTranspose2d(a, b, 3, 2, 1, 1), nn.InstanceNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(32, 3, 7), nn.Tanh()), image(128)


class Timed(nn.Module):
    """Two convolutions with group normalization, told the time of the diffusion."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(16, inputs), nn.GroupNorm(16, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[..., None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Conditioned(nn.Module):
    """Attention of a feature map's places to each other and to a text."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(16, width)
        self.own, self.text = Attention(width, heads), Attention(width, heads)
        self.forth = nn.Sequential(nn.LayerNorm(width), mlp(width, 4 * width, width,
                                                            activation=nn.GELU))  # fmt: skip
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = y + self.own(self.norm1(y))
        y = y + self.text(self.norm2(y), text)
        y = y + self.forth(y)
        return x + y.transpose(1, 2).unflatten(2, x.shape[2:])


class Diffusion(nn.Module):
    """A U-Net that removes noise, told the time and a text."""

    def __init__(self, width: int, channels: int = 4) -> None:
        super().__init__()
        time = 4 * width
        frequencies = torch.exp(-torch.arange(width // 2) * (9.21 / (width // 2)))
        self.register_buffer("frequencies", frequencies)
        self.time = mlp(width, time, time, activation=nn.SiLU)
        self.inward = nn.Conv2d(channels, width, 3, padding=1)
        self.down1, self.shrink1 = Timed(width, width, time), nn.Conv2d(width, width, 3, 2, 1)
        self.down2 = Timed(width, 2 * width, time)
        self.shrink2 = nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
        self.text2, self.text3 = Conditioned(2 * width, 4), Conditioned(4 * width, 8)
        self.text4 = Conditioned(2 * width, 4)
        self.low1, self.low2 = Timed(2 * width, 4 * width, time), Timed(4 * width, 4 * width, time)
        self.up2, self.up1 = Timed(6 * width, 2 * width, time), Timed(3 * width, width, time)
        self.words2, self.words4 = nn.Linear(256, 2 * width), nn.Linear(256, 4 * width)
        self.outward = nn.Sequential(
            nn.GroupNorm(16, width), nn.SiLU(), nn.Conv2d(width, channels, 3, padding=1)
        )

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        angles = step[:, None] * self.frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], 1))
        few, many = self.words2(text), self.words4(text)
        a = self.down1(self.inward(x), time)
        b = self.text2(self.down2(self.shrink1(a), time), few)
        c = self.low2(self.text3(self.low1(self.shrink2(b), time), many), time)
        y = F.interpolate(c, scale_factor=2.0, mode="nearest")
        y = self.text4(self.up2(torch.cat([y, b], 1), time), few)
        y = F.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.outward(self.up1(torch.cat([y, a], 1), time))


@network("diffusion")
def denoising() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A step of diffusion on a latent image, told a text."""
    return Diffusion(96), torch.randn(1, 4, 32, 32), torch.tensor([500.0]), torch.randn(1, 77, 256)


class Modulated(nn.Module):
    """A transformer's block that is scaled and shifted by the time of the diffusion."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention, self.forth = Attention(width, heads), mlp(
            width, 4 * width, width, activation=nn.GELU
        )  # fmt: skip
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        a, b, c, d, e, f = self.modulation(time).unsqueeze(1).chunk(6, -1)
        x = x + c * self.attention(self.norm(x) * (1 + a) + b)
        return x + f * self.forth(self.norm(x) * (1 + d) + e)


class DiffusionTransformer(nn.Module):
    """A transformer over patches of a noisy image."""

    def __init__(self, size: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.size, self.embed = size, nn.Conv2d(4, width, 2, 2)
        self.places = nn.Parameter(torch.randn(1, (size // 2) ** 2, width) * 0.02)
        self.time = mlp(width, width, width, activation=nn.SiLU)
        self.blocks = nn.ModuleList(Modulated(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y, time = self.embed(x).flatten(2).transpose(1, 2) + self.places, self.time(time)
        for block in self.blocks:
            y = block(y, time)
        side = self.size // 2
        y = self.head(y).view(1, side, side, 2, 2, 4).permute(0, 5, 1, 3, 2, 4)
        return y.reshape(1, 4, self.size, self.size)


@network("diffusion")
def diffusion_transformer() -> tuple[nn.Module, Tensor, Tensor]:
    """A step of diffusion by a transformer."""
    return DiffusionTransformer(32, 288, 6, 6), torch.randn(1, 4, 32, 32), torch.randn(1, 288)
