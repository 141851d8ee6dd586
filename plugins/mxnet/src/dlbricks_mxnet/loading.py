"""Loaded networks: executors with their arrays."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence
from dataclasses import dataclass

from dlbricks_core.backends import Array, BackendSettings, Network
from dlbricks_core.bricks import cold_tensors
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel
from dlbricks_mxnet.blocks import handed_on, laid_out
from dlbricks_mxnet.executors import Prepare, Start
from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.layouts import PLAIN, fed_layout
from dlbricks_mxnet.lowering import Lowered

mx = import_mxnet()

_PART_BYTES = 2**26
"""Bytes of a weight that are put in order at once."""


@dataclass
class Loaded:
    """A network that is ready to run.

    Attributes:
        start: Executor; starts one inference.
        inputs: Arrays that it reads.
        warmed: Inputs to warm before a timed run.
        results: Results of the last run.
        copied: Whether a copy with the same inputs runs before each timed run.
        place: Arrays for the results of the next run; new ones if empty.
    """

    model: CanonicalModel
    lowered: Lowered
    start: Start
    inputs: tuple[NDArray, ...]
    warmed: Sequence[NDArray] = ()
    results: Sequence[NDArray] = ()
    copied: bool = False
    place: Sequence[NDArray] = ()


def feeds_blocks(settings: BackendSettings) -> bool:
    """Whether the settings ask for inputs in the layouts that previous layers leave."""
    return settings.options.get("inputs", "found") != "plain"


def placed(network: Network, lowered: Lowered, prepare: Prepare, *, blocks: bool) -> Loaded:
    """Places a network's weights and inputs, and builds its executor.

    Args:
        network: Network in canonical form.
        lowered: MXNet's symbol of the network.
        prepare: Function that builds the executor.
        blocks: Whether inputs have the layouts that previous layers leave.
    """
    inputs = fed(network, lowered, blocks=blocks)
    held = {name: place(value) for name, value in lowered.arrays.items()}
    start = prepare(lowered, {**held, **inputs})
    cold = cold_tensors(network.model)
    given = dict(zip(network.model.inputs, inputs.values(), strict=True))
    warmed = tuple(array for name, array in given.items() if name not in cold)
    return Loaded(network.model, without_arrays(lowered), start, tuple(inputs.values()), warmed)


def fed(network: Network, lowered: Lowered, *, blocks: bool) -> dict[str, NDArray]:
    """A network's inputs, by MXNet variable; see :func:`placed`."""
    model = network.model
    values = lowered.feed(network.inputs, model).items()
    return {
        name: _laid_out(place(value), fed_layout(model, tensor) if blocks else PLAIN)
        for (name, value), tensor in zip(values, model.inputs, strict=True)
    }


def unload(loaded: Loaded) -> None:
    """Drops a network's graph, weights, inputs and results, once its operators have finished."""
    for result in loaded.results:
        result.wait_to_read()
    loaded.results = loaded.place = loaded.inputs = loaded.warmed = ()
    loaded.start = _Unloaded()
    gc.collect()  # executors and their symbols refer to each other
    mx.nd.waitall()  # the engine frees arrays asynchronously
    _trim()


def without_arrays(lowered: Lowered) -> Lowered:
    """The network without values, which are in MXNet's own arrays."""
    return Lowered(lowered.symbol, lowered.inputs, {}, lowered.auxiliary)


def _laid_out(array: NDArray, layout: str) -> NDArray:
    """The input in the layout that the previous layer would leave.

    A feature map inside a network almost always comes from a convolution, or from a layer that
    keeps its layout, and stays blocked until a layer needs another layout. With inputs in plain
    layout, every brick would pay for a conversion that the model pays for once.

    Args:
        array: Input in plain order.
        layout: oneDNN's name of the layout. If it is empty, the previous layer is unknown, and a
            depthwise convolution determines the layout.
    """
    if layout == PLAIN:
        return array
    return laid_out(array, layout) if layout else handed_on(array, array.shape[1], 1)


def place(value: Array) -> NDArray:
    """MXNet array with given values.

    A transposed weight is copied in parts: MXNet would put all of it in order first, which takes
    the memory of the weight once more.
    """
    if value.flags.c_contiguous:
        return mx.nd.array(value, ctx=mx.cpu(), dtype=value.dtype)
    array = mx.nd.empty(value.shape, ctx=mx.cpu(), dtype=value.dtype)
    rows = max(1, _PART_BYTES * len(value) // value.nbytes)
    for begin in range(0, len(value), rows):
        array[begin : begin + rows] = value[begin : begin + rows]
    return array


class _Unloaded:
    """Executor of a network that was unloaded."""

    arrays: Sequence[NDArray] = ()

    def __call__(
        self, arrays: Sequence[NDArray] = (), results: Sequence[NDArray] = ()
    ) -> Sequence[NDArray]:
        raise BackendError("the network was unloaded")


def _trim() -> None:
    """Returns freed memory to the system: glibc may keep the weights of several networks."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
