"""Networks in files, as users of PyTorch keep and open them: code, and a file of weights."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_pytorch.loading import laid_out
from dlbricks_pytorch.lowering import lower

_CODE, _WEIGHTS = "network.py", "weights.pt"

_MODULE = """\
import torch

{imports}

class Network(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        for name, value in weights.items():
            self.register_buffer(name, value)

{forward}"""

_CONSTANTS = {"inf": "from math import inf", "nan": "from math import nan",
              "NoneType": "from types import NoneType"}  # fmt: skip


@dataclass(frozen=True)
class Parsed:
    """Code and weights, as they are in the files.

    Attributes:
        network: Makes the module of its weights.
        weights: Weights by name.
    """

    network: Callable[[dict[str, torch.Tensor]], torch.nn.Module]
    weights: dict[str, torch.Tensor]


def save(network: Network, folder: Path) -> None:
    """Writes a class that computes the network, and its weights with ``torch.save``."""
    module = lower(network)
    code = module.graph.python_code("self")
    forward = "\n".join(f"    {line}" for line in code.src.strip().splitlines())
    named = set(re.findall(r"\w+", code.src))
    imports = [_import(name, value) for name, value in code.globals.items() if name in named]
    (folder / _CODE).write_text(_MODULE.format(imports="\n".join(imports), forward=forward))
    torch.save(module.state_dict(), folder / _WEIGHTS)


def _import(name: str, value: Any) -> str:
    """Statement that gives a name to a value of a module, or to a module."""
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if inspect.ismodule(value):
        return f"import {value.__name__} as {name}"
    return f"from {value.__module__} import {value.__qualname__} as {name}"


def parse(folder: Path) -> Parsed:
    """Imports the class, and reads the weights with ``torch.load``."""
    specification = importlib.util.spec_from_file_location("network", folder / _CODE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    weights = torch.load(folder / _WEIGHTS, weights_only=True)
    return Parsed(module.Network, weights)


def prepare(
    parsed: Parsed, inputs: tuple[torch.Tensor, ...], settings: BackendSettings
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module with its weights, and the inputs, in the layout that the settings ask for."""
    return laid_out(parsed.network(parsed.weights), inputs, settings)
