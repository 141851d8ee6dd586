"""Networks of unlike domains, with random weights, as plain PyTorch modules.

``NETWORKS`` lists them. Each is a function of a module of this package, and returns
``(module, example_inputs)``, as ``dlbricks --backend pytorch
torch:benchmarks.networks.speech:conformer`` expects it in the repository's root.
"""

from . import (
    convolutional,
    dense,
    generative,
    mobile,
    recommendation,
    science,
    series,
    sound,
    speech,
    text,
    vision,
)
from .registry import NETWORKS, Network

__all__ = [
    "NETWORKS",
    "Network",
    "convolutional",
    "dense",
    "generative",
    "mobile",
    "recommendation",
    "science",
    "series",
    "sound",
    "speech",
    "text",
    "vision",
]
