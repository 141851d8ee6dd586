"""Loads and runs networks with MXNet; the shared timer interface."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dlbricks_core.backends import BackendSettings, CpuTimer, Network, Profile
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import Model
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.layouts import fed_in_blocks
from dlbricks_mxnet.lowering import Lowered, lower
from dlbricks_mxnet.native import original

mx = import_mxnet()

NDArray = Any  # mxnet.nd.NDArray; MXNet has no type information
#: Starts one inference and returns its results, which are not there yet.
Start = Callable[[], Sequence[NDArray]]
#: Builds an executor for a network with its arrays.
Prepare = Callable[[Lowered, Mapping[str, NDArray]], Start]


_LARGE_WEIGHTS = 32_000_000
"""Bytes from which on a network's weights push each other out of the nearer caches."""

_COLUMNS = 1024
"""Of the matrix that is read to displace a network."""


@dataclass
class Loaded:
    """A network that is ready to run.

    Attributes:
        start: Starts one inference.
        inputs: What it reads.
        results: Of the last run.
        copied: Whether a copy reads the same inputs, and runs before each timed run.
    """

    model: Model
    lowered: Lowered
    start: Start
    inputs: tuple[NDArray, ...]
    results: Sequence[NDArray] = ()
    copied: bool = False


class MxnetTimer(CpuTimer[Loaded]):
    """Times networks on the CPU.

    MXNet runs asynchronously: ``run`` puts the operators into its engine's queue, and
    ``synchronize`` waits for every output.
    """

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._prepare = _EXECUTORS[settings.options.get("executor", "cachedop")]
        priming = settings.options.get("priming", "displaced")
        self._both, self._displaced = priming != "copy", priming == "displaced"
        self._blocks = settings.options.get("inputs", "blocked") == "blocked"
        self._elsewhere: NDArray = None

    def load(self, network: Network) -> Loaded:
        """Lowers the network, places weights and inputs, and builds the executor."""
        return self._placed(network, lower(network), self._prepare)

    def load_copy(self, network: Network, loaded: Loaded) -> Loaded:
        """Loads it to read the very inputs of the other, which its runs keep in the caches.

        By default the other runs first each time: what MXNet keeps of a network besides its
        weights is large, and as warm in a model that runs again and again. It alone runs if
        its weights are large.
        """
        if self._both and network.model.weight_bytes >= _LARGE_WEIGHTS:
            return loaded
        lowered = lower(network)
        names = lowered.feed(network.inputs, network.model)
        held = {name: _place(value) for name, value in lowered.arrays.items()}
        start = self._prepare(lowered, {**held, **dict(zip(names, loaded.inputs, strict=True))})
        loaded.copied = True

        def start_both() -> Sequence[NDArray]:
            for result in loaded.start():
                result.wait_to_read()
            return start()

        first = start_both if self._both else start
        return Loaded(network.model, _without_arrays(lowered), first, loaded.inputs)

    def _placed(self, network: Network, lowered: Lowered, prepare: Prepare) -> Loaded:
        model = network.model
        fed = {
            name: _blocked(_place(value))
            if self._blocks and fed_in_blocks(model, tensor)
            else _place(value)
            for (name, value), tensor in zip(
                lowered.feed(network.inputs, model).items(), model.inputs, strict=True
            )
        }
        held = {name: _place(value) for name, value in lowered.arrays.items()}
        start = prepare(lowered, {**held, **fed})
        return Loaded(network.model, _without_arrays(lowered), start, tuple(fed.values()))

    def load_native(self, network: Network) -> Loaded:
        """Loads a zoo network or a model file as MXNet itself runs it, nothing exported."""
        symbol, arrays = original(network)
        fed = {name: _place(value) for name, value in network.inputs.items()}
        lowered = Lowered(symbol, tuple(fed), {}, frozenset(symbol.list_auxiliary_states()))
        held = {name: _place(value) for name, value in arrays.items()}
        return Loaded(
            network.model, lowered, self._prepare(lowered, {**held, **fed}), tuple(fed.values())
        )

    def run(self, loaded: Loaded) -> None:
        """Puts one inference into MXNet's queue."""
        loaded.results = loaded.start()

    def synchronize(self, loaded: Loaded) -> None:
        """Waits for every output."""
        for result in loaded.results:
            result.wait_to_read()

    def touch(self, loaded: Loaded) -> None:
        """Reads inputs in MXNet's worker, where the layer before would run.

        Results are allocated in every run: reading makes copies, which warm that memory.
        Where a copy of the network has just run, both are warm, and reading more would only
        get in between.
        """
        if not loaded.copied:
            _read(loaded.results)
            _read(loaded.inputs)

    def displace(self, loaded: Loaded, nbytes: int) -> None:
        """Multiplies by a matrix of that size, on all threads; nothing large is written.

        The network itself ran before its copy, and a small one still finds its weights and its
        code in the cores' own caches, where a model has had other layers since.
        """
        if not self._displaced:
            return
        rows = max(1, nbytes // (4 * _COLUMNS))
        if self._elsewhere is None or len(self._elsewhere) != rows:
            self._elsewhere = mx.nd.ones((rows, _COLUMNS))
        row = mx.nd.ones((1, _COLUMNS))
        mx.nd.FullyConnected(row, self._elsewhere, no_bias=True, num_hidden=rows).wait_to_read()
        _read(loaded.inputs)

    def outputs(self, loaded: Loaded) -> Mapping[str, np.ndarray[Any, Any]]:
        """Results of the last run by name."""
        return loaded.lowered.fetch([r.asnumpy() for r in loaded.results], loaded.model)

    def profile(self, network: Network, runs: int) -> Profile:
        """What MXNet's profiler says of every operator."""
        from dlbricks_mxnet.profile import one_by_one, profile

        with one_by_one(self._settings):
            loaded = self._placed(network, lower(network, marked=True), _bound)
            try:
                return profile(self, loaded, runs)
            finally:
                self.unload(loaded)

    def unload(self, loaded: Loaded) -> None:
        """Drops the graph, its weights, inputs and results, once its work is done."""
        self.synchronize(loaded)
        loaded.results = loaded.inputs = ()
        loaded.start = _unloaded
        gc.collect()  # executors and their symbols refer to each other
        mx.nd.waitall()  # arrays are freed by the engine, in its own time
        _trim()

    def close(self) -> None:
        """Waits for all that MXNet still does."""
        mx.nd.waitall()


def _read(arrays: Sequence[NDArray]) -> None:
    """Copies arrays; with an operator that reads a blocked layout as it is, or any type."""
    for array in arrays:
        read = mx.nd.relu if array.dtype == np.float32 else mx.nd.identity
        read(array).wait_to_read()


def _without_arrays(lowered: Lowered) -> Lowered:
    """The same once its values live in MXNet's own arrays."""
    return Lowered(lowered.symbol, lowered.inputs, {}, lowered.auxiliary)


def _cached_op(lowered: Lowered, arrays: Mapping[str, NDArray], *, static: bool) -> Start:
    """As a hybridized Gluon block runs.

    Args:
        lowered: The network.
        arrays: Its inputs and weights.
        static: Whether its memory is its own for good (``static_alloc``, ``static_shape``).
    """
    names = lowered.symbol.list_inputs()
    data = [i for i, name in enumerate(names) if name in lowered.inputs]
    parameters = [i for i, name in enumerate(names) if name not in lowered.inputs]
    flags = [("data_indices", data), ("param_indices", parameters),
             ("static_alloc", static), ("static_shape", static)]  # fmt: skip
    call = mx.nd.CachedOp(lowered.symbol, flags)
    arguments = [arrays[name] for name in names]

    def start() -> Sequence[NDArray]:
        results = call(*arguments)
        return results if isinstance(results, list) else [results]

    return start


def _bound(lowered: Lowered, arrays: Mapping[str, NDArray]) -> Start:
    """As ``Symbol.bind`` and the Module API run."""
    symbol = lowered.symbol
    executor = symbol.bind(
        mx.cpu(),
        args={name: arrays[name] for name in symbol.list_arguments()},
        aux_states={name: arrays[name] for name in symbol.list_auxiliary_states()},
        grad_req="null",
    )

    def start() -> Sequence[NDArray]:
        return executor.forward(is_train=False)  # type: ignore[no-any-return]

    return start


_EXECUTORS: dict[str, Prepare] = {
    "cachedop": partial(_cached_op, static=False),
    "static": partial(_cached_op, static=True),
    "symbol": _bound,
}


def _blocked(array: NDArray) -> NDArray:
    """The input as a convolution would leave it: in oneDNN's blocked layout.

    A feature map in the middle of a network nearly always comes from a convolution or
    from what keeps its layout, and stays blocked until something needs it otherwise. Fed
    in plain layout, every brick would pay for a conversion that the model pays for once.
    """
    channels = array.shape[1]
    ones = mx.nd.ones((channels, 1, 1, 1))
    return mx.nd.Convolution(
        array, ones, kernel=(1, 1), num_filter=channels, num_group=channels, no_bias=True
    )


def _place(value: np.ndarray[Any, Any]) -> NDArray:
    return mx.nd.array(value, ctx=mx.cpu(), dtype=value.dtype)


def _unloaded() -> Sequence[NDArray]:
    raise BackendError("the network was unloaded")


def _trim() -> None:
    """Gives freed memory back to the system: glibc keeps up to several networks' weights."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
