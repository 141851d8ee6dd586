"""Networks saved in files, as users of PyTorch keep and open them: code, and a file of weights."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dlbricks_core.backends import Array, BackendSettings, Network, Saved
from dlbricks_core.ir import CanonicalModel
from dlbricks_pytorch.loading import Loaded, laid_out, placed_inputs
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
    """Code and weights from the files.

    Attributes:
        network: Function that creates the module from its weights.
        weights: Weights by name.
    """

    network: Callable[[dict[str, torch.Tensor]], torch.nn.Module]
    weights: dict[str, torch.Tensor]


Ready = Callable[[torch.nn.Module, tuple[torch.Tensor, ...], tuple[str, ...]], Loaded]
"""Function that makes a module ready to run, given its inputs and the names of its outputs."""


def save(network: Network, folder: Path, settings: BackendSettings, ready: Ready) -> SavedModule:
    """Writes a class that computes the network, and its weights with ``torch.save``."""
    module = lower(network)
    code = module.graph.python_code("self")
    forward = "\n".join(f"    {line}" for line in code.src.strip().splitlines())
    named = set(re.findall(r"\w+", code.src))
    imports = [_import(name, value) for name, value in code.globals.items() if name in named]
    (folder / _CODE).write_text(_MODULE.format(imports="\n".join(imports), forward=forward))
    torch.save(module.state_dict(), folder / _WEIGHTS)
    return SavedModule(network.model, network.inputs, folder, settings, ready)


@dataclass(frozen=True)
class SavedModule(Saved[Loaded]):
    """A network in a file of code and a file of weights.

    Attributes:
        model: The network.
        inputs: Values of its inputs, by name.
        folder: Folder of the files.
        settings: Options of the backend.
        ready: Function that makes the module ready to run.
    """

    model: CanonicalModel
    inputs: Mapping[str, Array]
    folder: Path
    settings: BackendSettings
    ready: Ready

    def feed(self) -> tuple[torch.Tensor, ...]:
        """The inputs as tensors."""
        return placed_inputs(self.model, self.inputs, self.settings)

    def parse(self) -> Parsed:
        """Imports the class, and reads the weights with ``torch.load``."""
        path = self.folder / _CODE
        specification = importlib.util.spec_from_file_location("network", path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        weights = torch.load(self.folder / _WEIGHTS, weights_only=True)
        return Parsed(module.Network, weights)

    def prepare(self, parsed: Parsed, fed: tuple[torch.Tensor, ...]) -> Loaded:
        """Creates the module from its weights, and compiles it if requested."""
        module = laid_out(parsed.network(parsed.weights), self.settings)
        return self.ready(module, fed, self.model.outputs)


def _import(name: str, value: Any) -> str:
    """Import statement that binds a name to a module or to a value in a module."""
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if inspect.ismodule(value):
        return f"import {value.__name__} as {name}"
    if inspect.ismethoddescriptor(value):  # a method of tensors, which belongs to no module
        return f"{name} = torch.Tensor.{value.__name__}"
    return f"from {value.__module__} import {value.__qualname__} as {name}"
