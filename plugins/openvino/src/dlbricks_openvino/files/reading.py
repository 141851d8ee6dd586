"""Graphs of OpenVINO's own files, with a name for each tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import openvino

from dlbricks_openvino.settings import core


def read_named(path: str | Path) -> openvino.Model:
    """OpenVINO's graph of a file; tensors without a name are named after their operation.

    Converters keep names of their models, and leave those tensors that they add without one. The
    import and the run of a file name tensors alike, so a profile tells of the import's layers.
    """
    graph = core().read_model(path)
    ports = [port for operation in graph.get_ordered_ops() for port in operation.outputs()]
    taken = {name for port in ports for name in port.get_names()}
    for port in ports:
        if not port.get_names():
            name = f"{port.node.get_friendly_name()}.{port.get_index()}"
            while name in taken:
                name += "'"
            taken.add(name)
            port.get_tensor().set_names({name})
    _name_bodies(graph, "body", count())
    return graph


def _name_bodies(graph: openvino.Model, stem: str, numbers: Iterator[int]) -> None:
    """Gives tensors in loops and branches names that no other tensor of the file has."""
    for operation in graph.get_ordered_ops():
        for body in _bodies(operation):
            # A Result has the tensor that it reads.
            inside = [each for each in body.get_ordered_ops() if each.get_type_name() != "Result"]
            for port in (port for inner in inside for port in inner.outputs()):
                name = f"{stem}/{next(numbers)}/{port.node.get_friendly_name()}"
                port.get_tensor().set_names({name})
            _name_bodies(body, stem, numbers)


def _bodies(operation: openvino.Node) -> Sequence[openvino.Model]:
    kind = operation.get_type_name()
    if kind == "If":
        return [operation.get_function(0), operation.get_function(1)]
    return [operation.get_function()] if kind in ("Loop", "TensorIterator") else []


def name_of_tensor(port: openvino.Output) -> str:
    """The first name of a tensor that has several."""
    return min(port.get_names())
