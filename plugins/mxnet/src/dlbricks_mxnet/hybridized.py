"""Time of each operator of a hybridized Gluon block, from MXNet's own profiler.

The block's graph runs once more as a ``CachedOp`` of its own, which reads the block's arrays.
Nothing is loaded or prepared anew. Operators are not bulked there, so the profiler reports each
operator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

import numpy as np

from dlbricks_core.backends import Profile, ProfiledLayer
from dlbricks_core.ir import CanonicalModel
from dlbricks_mxnet.events import times, traced
from dlbricks_mxnet.export_graph import Symbol, unique_names
from dlbricks_mxnet.framework import NDArray, import_mxnet

mx = import_mxnet()

_MOST_PROFILED = 20
_ENOUGH_MS = 5.0
"""Most profiled runs of a short model, and the milliseconds that they take together at least: the
profiler's times are whole microseconds."""


@dataclass(frozen=True)
class _Node:
    """An operator of the block's graph.

    Attributes:
        name: Its name, unique in the graph.
        operator: Its type.
        reads: Names of the operators and variables that it reads.
    """

    name: str
    operator: str
    reads: frozenset[str]


def profile(block: Any, fed: Sequence[NDArray], model: CanonicalModel, fewest: int) -> Profile:
    """Time of each operator of a block that has run.

    Args:
        block: The block.
        fed: Its arguments.
        model: The imported block, whose tensors have the names of the operators.
        fewest: Minimum number of runs.

    Raises:
        BackendError: If MXNet's trace does not have the operators in their order.
    """
    symbol = unique_names(block._cached_graph[1])
    nodes = _nodes(symbol)
    call = _in_order(block, fed, symbol, _ends(nodes))
    events, latencies = traced(call, lambda first_ms: _further_runs(first_ms, fewest))
    taken = times([node.operator for node in nodes], events, len(latencies))
    layers = [
        ProfiledLayer(node.name, node.operator, _computed(node, model), ms)
        for node, ms in zip(nodes, taken, strict=True)
    ]
    return Profile(layers, float(np.median(latencies)))


def _further_runs(first_ms: float, fewest: int) -> int:
    """Further runs to profile, after one of that latency."""
    return min(max(fewest, round(_ENOUGH_MS / first_ms)), max(fewest, _MOST_PROFILED)) - 1


def _computed(node: _Node, model: CanonicalModel) -> tuple[str, ...]:
    """Tensors of the model that an operator computes. The exporter names them after it.

    An operator with several results has names with numbers.
    """
    if node.name in model.producers:
        return (node.name,)
    first = f"{node.name}0"
    return (first,) if first in model.producers else ()


def _nodes(symbol: Symbol) -> list[_Node]:
    """Operators of a graph in the order in which MXNet starts them."""
    nodes = json.loads(symbol.tojson())["nodes"]
    return [
        _Node(
            each["name"],
            each["op"],
            frozenset(nodes[index]["name"] for index, *_ in each["inputs"]),
        )
        for each in nodes
        if each["op"] != "null"
    ]


def _ends(nodes: Sequence[_Node]) -> frozenset[str]:
    """Operators whose result the next one does not read.

    The next one could overtake them in the engine's queue. All others end before it begins.
    """
    return frozenset(node.name for node, after in pairwise(nodes) if node.name not in after.reads)


def _in_order(
    block: Any, fed: Sequence[NDArray], symbol: Symbol, ends: frozenset[str]
) -> Callable[[], float]:
    """Function that runs a block's operators in their order, and returns the latency.

    Args:
        block: The block, which has run.
        fed: Its arguments.
        symbol: Its graph.
        ends: Operators to wait for before the next one starts.
    """
    places = [index if given else None for given, index in block._cached_op_args]
    arrays = [
        held.data() if place is None else fed[place]
        for place, (_, held) in zip(places, block._cached_op_args, strict=True)
    ]
    call = mx.nd.CachedOp(
        symbol,
        [
            ("data_indices", [i for i, place in enumerate(places) if place is not None]),
            ("param_indices", [i for i, place in enumerate(places) if place is None]),
            # With memory of its own, MXNet would report the graph in one piece.
            ("static_alloc", False),
            ("static_shape", False),
            ("forward_bulk_size", 0),
        ],
    )
    awaited = _results(symbol, ends)

    def after(name: bytes, _: bytes, handle: int) -> None:
        # MXNet hands out a reference, which has to be dropped, or the array stays in memory.
        result = mx.nd.NDArray(mx.base.NDArrayHandle(handle), writable=False)
        if name in awaited:
            result.wait_to_read()

    if awaited:
        call._register_op_hook(after)

    def run() -> float:
        begin = perf_counter_ns()
        results = call(*arrays)
        for result in results if isinstance(results, list) else [results]:
            result.wait_to_read()
        return (perf_counter_ns() - begin) / 1e6

    return run


def _results(symbol: Symbol, ends: frozenset[str]) -> frozenset[bytes]:
    """Names of the results of some operators, as MXNet tells them to a hook.

    A result that its operator gives no name has a number there.
    """
    internals = symbol.get_internals()
    names = zip(internals.list_outputs(), internals, strict=True)
    named = {name for name, each in names if each.name in ends}
    numbered = {f"{name}_{i}" for name in ends for i in range(len(named))}
    return frozenset(name.encode() for name in named | numbered)
