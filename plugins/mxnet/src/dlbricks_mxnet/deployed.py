"""Networks in files, as users of MXNet keep and open them: a symbol, and its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.backends import Network
from dlbricks_mxnet.executors import Prepare
from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.loading import Loaded, place
from dlbricks_mxnet.lowering import Lowered
from dlbricks_mxnet.lowering.symbols import Symbol

mx = import_mxnet()

_SYMBOL, _PARAMETERS = "network-symbol.json", "network-0000.params"
_KINDS = "arg:", "aux:"
"""What the names of parameters and of auxiliary states begin with, in files of parameters."""


@dataclass(frozen=True)
class Parsed:
    """What the files hold.

    Attributes:
        symbol: The graph.
        arrays: Parameters and auxiliary states, by name.
    """

    symbol: Symbol
    arrays: dict[str, NDArray]


def save(lowered: Lowered, folder: Path) -> None:
    """Writes the files that ``HybridBlock.export`` writes."""
    lowered.symbol.save(str(folder / _SYMBOL))
    arrays = {
        _KINDS[name in lowered.auxiliary] + name: place(value)
        for name, value in lowered.arrays.items()
    }
    mx.nd.save(str(folder / _PARAMETERS), arrays)


def parse(folder: Path) -> Parsed:
    """Reads the files, with MXNet's own means."""
    symbol = mx.sym.load(str(folder / _SYMBOL))
    arrays = mx.nd.load(str(folder / _PARAMETERS)) or {}  # of no arrays it makes a list
    return Parsed(symbol, {name.partition(":")[2]: array for name, array in arrays.items()})


def prepare(parsed: Parsed, network: Network, executor: Prepare) -> Loaded:
    """A network with its inputs in plain layout, as a program feeds them.

    Args:
        parsed: What the files hold.
        network: The same network, for its inputs.
        executor: Function that builds the executor.
    """
    model = network.model
    auxiliary = frozenset(parsed.symbol.list_auxiliary_states())
    lowered = Lowered(parsed.symbol, tuple(model.inputs), {}, auxiliary)
    fed = {name: place(value) for name, value in lowered.feed(network.inputs, model).items()}
    return Loaded(model, lowered, executor(lowered, {**parsed.arrays, **fed}), tuple(fed.values()))
