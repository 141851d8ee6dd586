"""Networks saved in files as users of MXNet keep and open them: a symbol and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.backends import Network, Saved
from dlbricks_mxnet.executors import Prepare
from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.loading import Loaded, fed, place, without_arrays
from dlbricks_mxnet.lowering import Lowered, lower
from dlbricks_mxnet.lowering.symbols import Symbol

mx = import_mxnet()

_SYMBOL, _PARAMETERS = "network-symbol.json", "network-0000.params"
_KINDS = "arg:", "aux:"
"""Prefixes of the names of parameters and of auxiliary states, in files of parameters."""


@dataclass(frozen=True)
class Parsed:
    """Content of the files.

    Attributes:
        symbol: The graph.
        arrays: Parameters and auxiliary states, by name.
    """

    symbol: Symbol
    arrays: dict[str, NDArray]


def save(network: Network, folder: Path, executor: Prepare, *, blocks: bool) -> SavedSymbol:
    """Writes the files that ``HybridBlock.export`` writes.

    Args:
        network: Network in canonical form.
        folder: Folder of the files.
        executor: Function that builds executors.
        blocks: Whether inputs have the layouts that previous layers leave.
    """
    lowered = lower(network)
    lowered.symbol.save(str(folder / _SYMBOL))
    arrays = {
        _KINDS[name in lowered.auxiliary] + name: place(value)
        for name, value in lowered.arrays.items()
    }
    mx.nd.save(str(folder / _PARAMETERS), arrays)
    bare = Network(network.model, {}, network.inputs)
    return SavedSymbol(bare, without_arrays(lowered), folder, executor, blocks)


@dataclass(frozen=True)
class SavedSymbol(Saved[Loaded]):
    """A network in a file of its symbol and a file of parameters.

    Attributes:
        network: The network, without weights.
        lowered: Its symbol and the order of its inputs, without weights.
        folder: Folder of the files.
        executor: Function that builds executors.
        blocks: Whether inputs have the layouts that previous layers leave.
    """

    network: Network
    lowered: Lowered
    folder: Path
    executor: Prepare
    blocks: bool

    def feed(self) -> dict[str, NDArray]:
        """The inputs by variable; those of a brick are in the layouts of previous layers."""
        arrays = fed(self.network, self.lowered, blocks=self.blocks)
        mx.nd.waitall()  # the threaded engine is still laying them out
        return arrays

    def parse(self) -> Parsed:
        """Reads the symbol and its parameters."""
        symbol = mx.sym.load(str(self.folder / _SYMBOL))
        arrays = mx.nd.load(str(self.folder / _PARAMETERS)) or {}  # empty: a list
        return Parsed(symbol, {name.partition(":")[2]: each for name, each in arrays.items()})

    def prepare(self, parsed: Parsed, fed: dict[str, NDArray]) -> Loaded:
        """Builds the executor, whose parameters are those of a ``SymbolBlock`` without gradients.

        Arrays of the file are freed one by one. MXNet's default engine does so: it copies while
        the program goes on, and by then the program refers to no array of the file any more.
        """
        auxiliary = frozenset(parsed.symbol.list_auxiliary_states())
        lowered = Lowered(parsed.symbol, tuple(fed), {}, auxiliary)
        data = [mx.sym.var(name, dtype=array.dtype) for name, array in fed.items()]
        block = mx.gluon.SymbolBlock(parsed.symbol, data)
        parameters = block.collect_params()
        parameters.setattr("grad_req", "null")
        for name in list(parsed.arrays):
            one = {name: parsed.arrays.pop(name)}
            parameters.load_dict(one, allow_missing=True, cast_dtype=True, dtype_source="saved")
        held = {name: parameter.data() for name, parameter in parameters.items()}
        start = self.executor(lowered, {**held, **fed})
        mx.nd.waitall()  # the threaded engine is still copying
        return Loaded(self.network.model, lowered, start, tuple(fed.values()))
