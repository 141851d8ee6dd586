"""The timer: loads and runs networks with MXNet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from dlbricks_core.backends import (
    Array,
    BackendSettings,
    CpuTimer,
    Network,
    Opened,
    Profile,
    Timeline,
)
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_mxnet import deployed
from dlbricks_mxnet.executors import EXECUTORS, Start
from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.loading import (
    Loaded,
    feeds_blocks,
    place,
    placed,
    unload,
    without_arrays,
)
from dlbricks_mxnet.lowering import Lowered, lower
from dlbricks_mxnet.native import original

mx = import_mxnet()

_COLUMNS = 1024
"""Columns of the matrix that is read to displace a network from the caches."""


class MxnetTimer(CpuTimer[Loaded]):
    """Times networks on the CPU.

    MXNet runs asynchronously: ``run`` enqueues the operators in its engine, and ``synchronize``
    waits for all outputs.
    """

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._prepare = EXECUTORS[settings.options.get("executor", "cachedop")]
        priming = settings.options.get("priming", "displaced")
        self._both, self._displaced = priming != "copy", priming == "displaced"
        self._blocks = feeds_blocks(settings)
        self._elsewhere: dict[int, NDArray] = {}

    def load(self, network: Network) -> Loaded:
        """Lowers the network, places weights and inputs, and builds the executor."""
        return placed(network, lower(network), self._prepare, blocks=self._blocks)

    def load_copy(self, network: Network, loaded: Loaded, *, private_cache_bytes: int) -> Loaded:
        """Loads a copy that reads the other network's inputs, which its runs keep in the caches.

        By default the other network runs before each timed run. MXNet's data about a network,
        besides its weights, are large, and as warm as in a model that runs repeatedly. This run
        uses the copy's weights, so that the network's own weights stay out of all caches.

        For a brick, other memory then displaces the content of the cores' private caches. The copy
        writes its results to the memory of the timed run's results: in a model that memory is warm,
        because the last layer often reads it.
        """
        lowered = lower(network)
        names = lowered.feed(network.inputs, network.model)
        held = {name: place(value) for name, value in lowered.arrays.items()}
        # Inputs that must stay cold are copied, so that the run reads other memory.
        shared = {id(each) for each in loaded.warmed}
        own = (each if id(each) in shared else each.copy() for each in loaded.inputs)
        start = self._prepare(lowered, {**held, **dict(zip(names, own, strict=True))})
        loaded.copied = True
        if self._displaced and private_cache_bytes:
            loaded.place = loaded.start()
            start = _Primed(loaded, start, partial(self._displace, private_cache_bytes))
        elif self._both:
            start = _Primed(loaded, start)
        return Loaded(network.model, without_arrays(lowered), start, loaded.inputs)

    def _displace(self, nbytes: int) -> None:
        """Reads a matrix of a given size on all threads, by a product with a small result."""
        rows = max(1, nbytes // (4 * _COLUMNS))
        if rows not in self._elsewhere:
            self._elsewhere[rows] = mx.nd.ones((rows, _COLUMNS))
        row, matrix = mx.nd.ones((1, _COLUMNS)), self._elsewhere[rows]
        mx.nd.FullyConnected(row, matrix, no_bias=True, num_hidden=rows).wait_to_read()

    def load_native(self, network: Network) -> Loaded:
        """Loads a zoo network or a model file in MXNet's native form, without an export."""
        symbol, arrays = original(network)
        fed = {name: place(value) for name, value in network.inputs.items()}
        lowered = Lowered(symbol, tuple(fed), {}, frozenset(symbol.list_auxiliary_states()))
        held = {name: place(value) for name, value in arrays.items()}
        return Loaded(
            network.model,
            lowered,
            self._prepare(lowered, {**held, **fed}),
            tuple(fed.values()),
            tuple(fed.values()),
        )

    def open(
        self, model: CanonicalModel, inputs: Mapping[str, Array], profiled_runs: int
    ) -> Opened:
        """A hybridized Gluon block, and the time of each of its operators."""
        from dlbricks_mxnet.users import open_block

        if self._settings.options.get("executor", "cachedop") == "symbol":
            raise UnsupportedError("Gluon's users have no executor of symbols")
        return open_block(model, inputs, self._settings, profiled_runs)

    def save(self, network: Network, folder: Path) -> deployed.SavedSymbol:
        """Writes the symbol and its parameters, as ``HybridBlock.export`` does."""
        return deployed.save(network, folder, self._prepare, blocks=self._blocks)

    def run(self, loaded: Loaded) -> None:
        """Enqueues one inference in MXNet's engine."""
        loaded.results = loaded.start(results=loaded.place)

    def synchronize(self, loaded: Loaded) -> None:
        """Waits for every output."""
        for result in loaded.results:
            result.wait_to_read()

    def warm_io(self, loaded: Loaded) -> None:
        """Reads inputs on MXNet's worker thread, where the previous layer would run.

        Every run allocates its results. Reading makes copies, which warm that memory. If a copy of
        the network has just run, inputs and results are warm, and further reads would only disturb
        them.
        """
        if not loaded.copied:
            _read(loaded.results)
            _read(loaded.warmed)

    def forget(self, loaded: Loaded) -> None:
        """Frees the results of the last run."""
        loaded.results = ()
        mx.nd.waitall()  # the threaded engine frees arrays later

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Results of the last run by name."""
        return loaded.lowered.fetch([r.asnumpy() for r in loaded.results], loaded.model)

    def profile(self, network: Network, runs: int) -> Profile:
        """Time of every layer, from MXNet's profiler."""
        from dlbricks_mxnet.profile import profile

        return profile(network, self._settings, runs)

    def timeline(self, network: Network) -> Timeline:
        """Activity of each thread in one run, from MXNet's profiler."""
        from dlbricks_mxnet.profile import timeline

        return timeline(network, self._settings)

    def unload(self, loaded: Loaded) -> None:
        """Frees the network once its work is done."""
        unload(loaded)

    def close(self) -> None:
        """Waits until MXNet's engine is idle."""
        mx.nd.waitall()


def _read(arrays: Sequence[NDArray]) -> None:
    """Reads arrays by copying them, with an operator that keeps blocked layouts."""
    for array in arrays:
        read = mx.nd.relu if array.dtype == np.float32 else mx.nd.identity
        read(array).wait_to_read()


class _Primed:
    """Runs a network to its end, and then its copy; both use the copy's weights if possible.

    Args:
        first: The network.
        then: The copy, which writes its results to the memory of the network's results.
        between: Function that runs in between.
    """

    def __init__(
        self, first: Loaded, then: Start, between: Callable[[], None] | None = None
    ) -> None:
        self._first, self._then, self._between = first, then, between
        self._read = then.arrays if first.start.arrays else ()
        self.arrays = then.arrays

    def __call__(
        self, arrays: Sequence[NDArray] = (), results: Sequence[NDArray] = ()
    ) -> Sequence[NDArray]:
        for result in self._first.start(self._read):
            result.wait_to_read()
        if self._between:
            self._between()
        return self._then(arrays, results or self._first.place)
