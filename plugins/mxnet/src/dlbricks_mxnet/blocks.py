"""Memory layouts that oneDNN chooses on this machine, found by running convolutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from dlbricks_core.backends import Network
from dlbricks_core.bricks import signature
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import Array, CanonicalModel, Layer
from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.layouts import LAST, PLAIN, blocks_of
from dlbricks_mxnet.lowering import lower

mx = import_mxnet()

Shape = tuple[int, ...]

_BLOCKS = (4, 8, 16)
"""Sizes of the channel blocks that oneDNN uses."""

_DRAWN = 1_048_573
"""Number of distinct values that are drawn: a prime, so that hardly any axis repeats them."""

_KERNELS = (1, 3)
_GROUPS = (1, 2, 4, 8, 16, 32)
"""Windows and groups of convolutions to try when looking for one that leaves a layout."""

_made: dict[str, str] = {}
"""Layout that each convolution leaves, by signature."""


def made_by(model: CanonicalModel, index: int) -> str:
    """Layout in which a convolution leaves its result, whatever the layout of its input.

    oneDNN chooses the layout by the shape, the processor and the number of threads, and MXNet
    offers no way to query it. So the convolution runs once.

    Args:
        model: Model in canonical form, with static shapes.
        index: Index of a Conv or ConvTranspose in the model.
    """
    key = signature(model, (index,))
    if key not in _made:
        alone = _alone(model, model.layers[index])
        sizes = {name: alone.tensors[name].sizes for name in (*alone.inputs, *alone.weights)}
        values = {name: _different(shape) for name, shape in sizes.items()}
        lowered = lower(Network(alone, values, values))
        arrays = {**lowered.arrays, **lowered.feed(values, alone)}
        names = lowered.symbol.list_inputs()
        call = mx.nd.CachedOp(lowered.symbol)
        fed = [mx.nd.array(arrays[name]) for name in names]
        shape = alone.tensors[alone.outputs[0]].sizes
        _made[key] = layout_of_result(shape, lambda out: call(*fed, out=[out]))
    return _made[key]


def laid_out(array: NDArray, layout: str) -> NDArray:
    """An array with equal values in another layout.

    Raises:
        BackendError: If no identity convolution leaves such a layout.
    """
    groups, kernel = _recipe(tuple(array.shape), layout)
    return handed_on(array, groups, kernel)


@cache
def _recipe(shape: Shape, layout: str) -> tuple[int, int]:
    """Groups and window of a convolution that leaves such a layout."""
    channels = shape[1]
    # Groups of exactly one block almost always suffice.
    groups = (*(channels // size for size in _BLOCKS if layout == blocks_of(size)), *_GROUPS)
    for wanted in (layout, *_same_order(channels, layout)):
        for kernel, number in product(_KERNELS, (*groups, channels)):
            if number and channels % number == 0 and _left_by(shape, number, kernel) == wanted:
                return number, kernel
    raise BackendError(f"MXNet: no convolution found that leaves {shape} in the layout {layout}")


def _same_order(channels: int, layout: str) -> tuple[str, ...]:
    """Layouts with the same order in memory: all channels in one block, or along the last axis."""
    both = (LAST, blocks_of(channels))
    return both if channels in _BLOCKS and layout in both else ()


@cache
def _left_by(shape: Shape, groups: int, kernel: int) -> str:
    array = mx.nd.array(_different(shape))
    return layout_of_result(shape, lambda out: handed_on(array, groups, kernel, out))


def handed_on(array: NDArray, groups: int, kernel: int, out: NDArray = None) -> NDArray:
    """Result of a convolution that leaves every channel unchanged."""
    channels = array.shape[1]
    weights = np.zeros((channels, channels // groups, kernel, kernel), np.float32)
    each = np.arange(channels)
    weights[each, each % (channels // groups), kernel // 2, kernel // 2] = 1
    return mx.nd.Convolution(
        array, mx.nd.array(weights), kernel=(kernel, kernel), pad=(kernel // 2, kernel // 2),
        num_filter=channels, num_group=groups, no_bias=True, out=out,
    )  # fmt: skip


def _alone(model: CanonicalModel, layer: Layer) -> CanonicalModel:
    """A layer as a model; all inputs but the first are weights."""
    data, *others = layer.inputs
    names = {*filter(None, layer.inputs), layer.outputs[0]}
    return CanonicalModel(
        name="alone",
        layers=(replace(layer, outputs=layer.outputs[:1]),),
        inputs=(data,),
        outputs=layer.outputs[:1],
        tensors={name: replace(model.tensors[name], layout="") for name in names},
        weights=frozenset(filter(None, others)),
    )


def _different(shape: Shape) -> Array:
    """Numbers that differ from their neighbours; drawing all of a large weight would take long."""
    return np.resize(_drawn(), shape)


@cache
def _drawn() -> Array:
    return np.random.default_rng(0).random(_DRAWN, np.float32)


def layout_of_result(shape: Shape, compute: Callable[[NDArray], object]) -> str:
    """Memory layout of a result.

    Args:
        shape: Shape of the result.
        compute: Function that writes the result into a given array.

    Raises:
        BackendError: If the layout is unknown.
    """
    memory, result = _looked_into(shape)
    compute(result)
    plain = result.asnumpy()
    if np.isnan(memory.flat[0]):
        # It takes more memory at another address: channels are padded to whole blocks.
        return blocks_of(_BLOCKS[-1])
    found = next((n for n in (1, *_BLOCKS, shape[1]) if _is_in_blocks(memory, plain, n)), None)
    if found is None:
        raise BackendError(f"MXNet: {shape} has an unknown memory layout")
    if found == 1:
        return PLAIN
    if found < shape[1]:
        return blocks_of(found)
    if found not in _BLOCKS:
        return LAST
    # All channels in one block, or along the last axis, which oneDNN tells apart: a sum is laid
    # out as the first of its inputs that is in blocks, or in plain order.
    memory, total = _looked_into(shape)
    mx.nd.elemwise_add(mx.nd.zeros(shape), result, out=total)
    total.wait_to_read()
    return LAST if _is_in_blocks(memory, plain, 1) else blocks_of(found)


def _looked_into(shape: Shape) -> tuple[Array, NDArray]:
    """A block of memory, and an MXNet array in it."""
    memory = np.full(shape, np.nan, np.float32)
    return memory, mx.nd.from_numpy(memory, zero_copy=True)


def _is_in_blocks(memory: Array, plain: Array, size: int) -> bool:
    """Whether the values are stored in blocks of ``size`` channels."""
    first = plain[0, :size]
    return np.array_equal(memory.ravel()[: first.size], first.reshape(len(first), -1).T.ravel())
