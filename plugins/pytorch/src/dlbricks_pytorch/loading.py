"""Networks that are ready to run: torch modules with their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import fx

from dlbricks_core.backends import Array, BackendSettings, Network
from dlbricks_core.ir import CanonicalModel
from dlbricks_pytorch.lowering import lower
from dlbricks_pytorch.tensors import from_numpy

ModuleT = TypeVar("ModuleT", bound=torch.nn.Module)

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass
class Loaded:
    """A network that is ready to run.

    Attributes:
        call: Function that one inference calls with ``inputs``.
        inputs: Tensors in the order of the model's inputs.
        outputs: Names of the results.
        results: Results of the last run.
        result_bytes: Memory of the most recently released results.
        warmed: Inputs to warm before a timed run.
    """

    call: Callable[..., tuple[torch.Tensor, ...]]
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[str, ...]
    results: tuple[torch.Tensor, ...] = ()
    result_bytes: int = 0
    warmed: Sequence[torch.Tensor] = ()


def placed_weights(network: Network, settings: BackendSettings) -> fx.GraphModule:
    """Lowers a network, and places its weights in the layout of the settings.

    Raises:
        UnsupportedError: If torch has no exact counterpart for a layer.
    """
    return laid_out(lower(network), settings)


def laid_out(module: ModuleT, settings: BackendSettings) -> ModuleT:
    """A module with its weights in the layout of the settings."""
    if _wants_channels_last(settings):
        for name, buffer in list(module.named_buffers()):
            module.register_buffer(name, _channels_last(buffer))
    return module


def placed_inputs(
    model: CanonicalModel, values: Mapping[str, Array], settings: BackendSettings
) -> tuple[torch.Tensor, ...]:
    """A model's inputs in order, in the layout of the settings.

    Args:
        model: Model in canonical form.
        values: Value of each input by name.
        settings: Options of the backend.
    """
    inputs = tuple(from_numpy(values[name]) for name in model.inputs)
    return tuple(map(_channels_last, inputs)) if _wants_channels_last(settings) else inputs


def _wants_channels_last(settings: BackendSettings) -> bool:
    return settings.options.get("memory_format") == "channels_last"


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    form = _FORMATS.get(tensor.dim())
    return tensor if form is None else tensor.contiguous(memory_format=form)
