"""Networks that are ready to run: torch modules with their inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import fx

from dlbricks_core.backends import BackendSettings, Network
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
        result_bytes: Memory of the results that were last released.
    """

    call: Callable[..., tuple[torch.Tensor, ...]]
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[str, ...]
    results: tuple[torch.Tensor, ...] = ()
    result_bytes: int = 0


def placed(
    network: Network, settings: BackendSettings
) -> tuple[fx.GraphModule, tuple[torch.Tensor, ...]]:
    """Lowers a network and places its weights and inputs in the layout that the settings ask for.

    Returns:
        The module, and its inputs in order.

    Raises:
        UnsupportedError: If torch has no exact counterpart for a layer.
    """
    module = lower(network)
    inputs = tuple(from_numpy(network.inputs[name]) for name in network.model.inputs)
    return laid_out(module, inputs, settings)


def laid_out(
    module: ModuleT, inputs: tuple[torch.Tensor, ...], settings: BackendSettings
) -> tuple[ModuleT, tuple[torch.Tensor, ...]]:
    """A module's weights and its inputs in the layout that the settings ask for."""
    if settings.options.get("memory_format") == "channels_last":
        for name, buffer in list(module.named_buffers()):
            module.register_buffer(name, _channels_last(buffer))
        inputs = tuple(map(_channels_last, inputs))
    return module, inputs


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    form = _FORMATS.get(tensor.dim())
    return tensor if form is None else tensor.contiguous(memory_format=form)
