"""Nodes of the graph that OpenVINO executes, and the layers of the model that each stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import openvino

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino.loading import defined, read
from dlbricks_openvino.settings import core, properties

_PREFIX = "dlbricks:"
_ENDS = frozenset(("Constant", "Parameter", "Result"))
_NUMBER = re.compile(rf"{_PREFIX}(\d+)\.")


@dataclass(frozen=True)
class Node:
    """A node of the executed graph.

    Attributes:
        name: OpenVINO's name of the node.
        operator: Its type.
        origins: Names of the operations that it stands for, of OpenVINO's own graph.
        layout: Layout of its first result.
        us: Mean microseconds of a run so far, in whole numbers; ``None`` if it was not executed.
    """

    name: str
    operator: str
    origins: tuple[str, ...]
    layout: str
    us: int | None


def compiled_whole(
    network: Network, settings: BackendSettings, *, profiled: bool = False
) -> openvino.CompiledModel:
    """A whole model, compiled with names that say which layer each operation belongs to.

    Args:
        network: In canonical form, without layouts.
        settings: Threads and options.
        profiled: Whether OpenVINO times each layer.
    """
    whole = defined(network.model)
    graph = read(whole.network(network))
    number(graph, whole.model, whole.origins)
    wanted = {**properties(network.model, settings), "PERF_COUNT": profiled}
    return core().compile_model(graph, "CPU", wanted)


def number(
    graph: openvino.Model, model: CanonicalModel, origins: Sequence[int] | None = None
) -> None:
    """Names each operation of a graph after the layer of the model that it belongs to.

    OpenVINO reads some layers as several operations; the last operation has the layer's result.
    The other operations belong to the layer of their reader. Names do not change what is executed.

    Args:
        graph: OpenVINO's graph, as it was read.
        model: The model, with the graph's names of tensors.
        origins: For each layer, the number to use in place of its index.
    """
    owners: dict[str, int] = {}
    for part, operation in enumerate(reversed(graph.get_ordered_ops())):
        names = {name for port in operation.outputs() for name in port.get_names()}
        own = [model.producers[name] for name in names if name in model.producers]
        readers = [each.get_node() for port in operation.outputs()
                   for each in port.get_target_inputs()]  # fmt: skip
        own = own or [owners[each.get_name()] for each in readers if each.get_name() in owners]
        if own and operation.get_type_name() not in _ENDS:
            owners[operation.get_name()] = min(own)
            index = min(own) if origins is None else origins[min(own)]
            operation.set_friendly_name(f"{_PREFIX}{index}.{part}")


def executed(graph: openvino.Model) -> Iterator[Node]:
    """Nodes of a runtime model, in the order in which they run."""
    for node in graph.get_ordered_ops():
        facts = {name: str(fact.value) for name, fact in node.get_rt_info().items()}
        us = facts.get("execTimeMcs", "")
        yield Node(
            node.get_friendly_name(),
            facts.get("layerType", ""),
            tuple(facts.get("originalLayersNames", "").split(",")),
            facts.get("outputLayouts", "").partition(",")[0],
            int(us) if us.isdecimal() else None,
        )


def layers_of(nodes: Iterable[Node], model: CanonicalModel) -> dict[str, tuple[int, ...]]:
    """Layers of the model that each node computes, by the node's name; the last layer first.

    Args:
        nodes: Nodes of the graph that OpenVINO made of a numbered one.
        model: The model.
    """
    return {node.name: _named(node, model) for node in nodes}


def with_merged(
    found: Mapping[str, tuple[int, ...]], model: CanonicalModel
) -> dict[str, tuple[int, ...]]:
    """Layers of each node, with those that OpenVINO merged into others without a trace of names.

    Such a layer is part of a later layer: a convolution of a normalization, or a reshape of a
    shuffle.
    """
    owner = {index: name for name, layers in found.items() for index in layers}
    merged: dict[str, list[int]] = {name: list(layers) for name, layers in found.items()}
    for index in reversed(range(len(model.layers))):
        if index not in owner:
            names = (name for name in model.layers[index].outputs if name)
            readers = (each for name in names for each in model.consumers.get(name, ()))
            behind = next((owner[each] for each in readers if each in owner), None)
            if behind is not None:
                owner[index] = behind
                merged[behind].append(index)
    return {name: tuple(layers) for name, layers in merged.items()}


def _named(node: Node, model: CanonicalModel) -> tuple[int, ...]:
    layers = {int(number) for origin in node.origins for number in _NUMBER.findall(origin)}
    # The layer of a model's result has the result's name.
    layers.update(model.producers[name] for name in node.origins if name in model.producers)
    if not layers:  # A conversion is named after its input, and then its reader.
        layers = {int(number) for number in _NUMBER.findall(node.name)[-1:]}
    return tuple(sorted(layers, reverse=True))
