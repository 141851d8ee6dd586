"""Published architectures, in the order of their publication.

Each is written anew in plain PyTorch, with random weights, in the shape that its paper gives. Where
its weights would take more than 400 MB, it has fewer blocks, words or pixels. ``ARCHITECTURES``
lists them, and each is an attribute of this package:
``torch:benchmarks.networks.public:resnet50``.
"""

from __future__ import annotations

from ..registry import Factory
from . import backbones, dense, others, sound, text, transformers
from .registry import Architecture, entered

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "backbones",
    "dense",
    "others",
    "sound",
    "text",
    "transformers",
]

ARCHITECTURES: dict[str, Architecture] = {
    each.name: each for each in sorted(entered, key=lambda each: each.published)
}
"""Architectures by name, the oldest first."""


def __getattr__(name: str) -> Factory:
    if name in ARCHITECTURES:
        return ARCHITECTURES[name].factory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
