"""Networks in files, as users of MXNet keep and open them: a symbol, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.ir import CanonicalModel
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


@dataclass(frozen=True)
class Fed:
    """A model, and its inputs by MXNet variable."""

    model: CanonicalModel
    inputs: Mapping[str, NDArray]


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


def prepare(parsed: Parsed, fed: Fed, executor: Prepare) -> Loaded:
    """A network that is ready to run.

    Args:
        parsed: What the files hold.
        fed: Its inputs.
        executor: Function that builds the executor.
    """
    auxiliary = frozenset(parsed.symbol.list_auxiliary_states())
    lowered = Lowered(parsed.symbol, tuple(fed.inputs), {}, auxiliary)
    start = executor(lowered, {**parsed.arrays, **fed.inputs})
    return Loaded(fed.model, lowered, start, tuple(fed.inputs.values()))
