"""Loops and branches of OpenVINO's files, whose bodies are graphs of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import openvino
from onnx import GraphProto, TensorProto, ValueInfoProto, helper

from dlbricks_openvino.files.building import Graph, Operation, dtype_of, number_of, sizes_of
from dlbricks_openvino.files.merging import with_biases
from dlbricks_openvino.files.reading import name_of_tensor

Fill = Callable[[Graph], None]
"""Adds the counterparts of all operations of a graph."""

_FIRST = np.iinfo(np.int64).min
"""End of a slice that goes back to the first element."""


@dataclass
class _Body:
    """The body of a loop, or a branch, under construction.

    Attributes:
        operation: The loop or the choice.
        source: OpenVINO's graph of the body.
    """

    operation: Operation
    source: openvino.Model
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        outer = self.operation.graph
        # Constants of a body lie in the model around it, as what it reads from there does.
        self.graph = Graph(self.source, [], outer.values, outer.weights, outer.names,
                           outer.numbers)  # fmt: skip

    @cached_property
    def parameters(self) -> Sequence[openvino.Output]:
        """Inputs of OpenVINO's graph."""
        return [each.output(0) for each in self.source.get_parameters()]

    @cached_property
    def results(self) -> Sequence[openvino.Output]:
        """Results of OpenVINO's graph."""
        return [each.input_value(0) for each in self.source.get_results()]

    def reads(self, parameter: int, name: str) -> None:
        """Lets a parameter be a tensor that is known under a name."""
        self.graph.names[name_of_tensor(self.parameters[parameter])] = name

    def captures(self, parameter: int, position: int) -> None:
        """Lets a parameter be an input of the operation."""
        self.reads(parameter, captured(self.operation, position))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one result."""
        return self.graph.add(self.operation.stem, op, inputs, 1, **attributes)[0]

    def written(
        self,
        inputs: Sequence[ValueInfoProto],
        fill: Fill,
        more: Sequence[str],
        wanted: Sequence[int],
    ) -> GraphProto:
        """The body as a graph of ONNX.

        Args:
            inputs: Its inputs.
            fill: Adds its nodes.
            more: Results that OpenVINO's graph does not have, before the others.
            wanted: Positions of the results of OpenVINO's graph.
        """
        fill(self.graph)
        results = [self.graph.names[name_of_tensor(port)] for port in self.results]
        # A result may be a parameter, or be wanted twice.
        given = [*more, *(self.add("Identity", results[each]) for each in wanted)]
        with_biases(self.graph, given)
        outputs = [
            *(helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in more),
            *(
                helper.make_tensor_value_info(name, number_of(dtype_of(port)), sizes_of(port))
                for name, port in zip(
                    given[len(more) :],
                    (self.results[each] for each in wanted),
                    strict=True,
                )
            ),
        ]
        return helper.make_graph(self.graph.nodes, "body", inputs, outputs)


def captured(operation: Operation, position: int) -> str:
    """Name under which a body reads an input of its operation.

    Results of layers get a name of their own: layers around the operation may be merged.
    """
    name, graph = operation.inputs[position], operation.graph
    if name in graph.values or name in graph.weights:
        return name
    return operation.add("Identity", name)


def branches(operation: Operation, fill: Fill) -> Sequence[str]:
    """Counterpart of ``If``."""
    node, found = operation.node, {}
    for at, key in enumerate(("then_branch", "else_branch")):
        body = _Body(operation, node.get_function(at))
        for each in node.get_input_descriptions(at):
            body.captures(each.body_parameter_index, each.input_index)
        told = sorted(node.get_output_descriptions(at), key=lambda each: int(each.output_index))
        found[key] = body.written([], fill, [], [each.body_value_index for each in told])
    results = len(found["then_branch"].output)
    return operation.several("If", operation.inputs[0], results=results, **found)


def tensor_iterator(operation: Operation, fill: Fill) -> Sequence[str]:
    """Counterpart of ``TensorIterator``, which makes a step for each row of what it slices."""
    node = operation.node
    sliced = next((each for each in node.get_input_descriptions() if _is_sliced(each)), None)
    if sliced is None:
        raise operation.refuse("it slices none of its inputs, so it has no number of steps")
    steps = _length(operation, sliced.input_index, sliced.axis)
    return _Loop(operation, _Body(operation, node.get_body()), fill).written(steps, "", -1, -1)


def loop(operation: Operation, fill: Fill) -> Sequence[str]:
    """Counterpart of ``Loop``, which ends after a number of steps or by a condition."""
    node = operation.node
    condition = operation.inputs[1]
    trips = operation.computed(0)
    endless = trips is not None and np.ravel(trips)[0] < 0
    steps = "" if endless else operation.int64(0)
    current, goes_on = node.get_special_body_ports()
    body = _Body(operation, node.get_function())
    return _Loop(operation, body, fill).written(steps, condition, current, goes_on)


@dataclass
class _Loop:
    """A loop of either kind."""

    operation: Operation
    body: _Body
    fill: Fill

    def written(self, steps: str, condition: str, current: int, goes_on: int) -> Sequence[str]:
        """Adds the loop.

        Args:
            steps: Name of the number of steps; empty if a condition alone ends it.
            condition: Name of the condition of the first step; empty without any.
            current: Parameter of the body for the number of the step; -1 without one.
            goes_on: Result of the body for the condition of the next step; -1 without one.

        Returns:
            Names of the loop's results.
        """
        operation, body = self.operation, self.body
        step, going = operation.graph.new("step"), operation.graph.new("going")
        inputs = [
            helper.make_tensor_value_info(step, TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        ]
        if current >= 0:
            body.reads(current, self._typed(step, body.parameters[current]))
        merged = []
        for each in operation.node.get_input_descriptions():
            if _is_sliced(each):
                body.reads(each.body_parameter_index, self._row(each, step))
            elif _is_merged(each):
                port = body.parameters[each.body_parameter_index]
                name = name_of_tensor(port)
                body.reads(each.body_parameter_index, name)
                inputs.append(
                    helper.make_tensor_value_info(name, number_of(dtype_of(port)), sizes_of(port))
                )
                merged.append(each)
            else:
                body.captures(each.body_parameter_index, each.input_index)
        told = sorted(operation.node.get_output_descriptions(), key=lambda each: each.output_index)
        back = [each.body_value_index for each in merged]
        rows = [each for each in told if not _is_last(each, back)]
        graph = body.written(inputs, self.fill, [], [
            *([goes_on] if goes_on >= 0 else []), *back, *(each.body_value_index for each in rows)
        ])  # fmt: skip
        if goes_on < 0:
            graph.node.append(helper.make_node("Identity", [going], [f"{going}/on"]))
            on = helper.make_tensor_value_info(f"{going}/on", TensorProto.BOOL, [])
            graph.output.insert(0, on)
        first = [operation.inputs[each.input_index] for each in merged]
        found = operation.several("Loop", steps, condition, *first, body=graph,
                                  results=len(first) + len(rows))  # fmt: skip
        last = dict(zip(back, found, strict=False))
        stacked = dict(zip((each.output_index for each in rows), found[len(first) :], strict=True))
        return [
            self._joined(each, stacked[each.output_index])
            if each.output_index in stacked
            else last[each.body_value_index]
            for each in told
        ]

    def _typed(self, step: str, port: openvino.Output) -> str:
        """The number of a step in the type and with the axes that the body wants."""
        name = self.body.add("Cast", step, to=number_of(dtype_of(port)))
        axes = port.get_partial_shape().rank.get_length()
        return self.body.add("Reshape", name, self.operation.integers(*[1] * axes))

    def _row(self, told: Any, step: str) -> str:
        """The row of an input that a step reads."""
        self._check(told)
        operation, body = self.operation, self.body
        if told.stride < 0:
            length = _length(operation, told.input_index, told.axis)
            end = operation.add("Sub", length, operation.graph.constant("one", np.array(1)))
            step = body.add("Sub", end, step)
        place = body.add("Reshape", step, operation.integers(1))
        return body.add("Gather", captured(operation, told.input_index), place, axis=told.axis)

    def _joined(self, told: Any, rows: str) -> str:
        """A result of the loop, from the results of all steps along a first axis."""
        operation = self.operation
        if not hasattr(told, "axis"):
            place = operation.graph.constant("place", np.array(told.iteration))
            return operation.add("Gather", rows, place, axis=0)
        self._check(told)
        if told.stride < 0:
            bounds = map(operation.integers, (-1, _FIRST, 0, -1))
            rows = operation.add("Slice", rows, *bounds)
        port = self.body.results[told.body_value_index]
        rank, axis = port.get_partial_shape().rank.get_length(), told.axis
        if axis:
            order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
            rows = operation.add("Transpose", rows, perm=order)
        return operation.add("Squeeze", rows, operation.integers(axis + 1))

    def _check(self, told: Any) -> None:
        ends = (0, -1) if told.stride > 0 else (-1, 0)
        if abs(told.stride) != 1 or told.part_size != 1 or (told.start, told.end) != ends:
            raise self.operation.refuse("a step takes more than a row, or leaves rows out")


def _length(operation: Operation, position: int, axis: int) -> str:
    """Name of the number of rows of an input."""
    place = operation.graph.constant("axis", np.array(axis))
    return operation.add("Gather", operation.add("Shape", operation.inputs[position]), place)


def _is_sliced(told: Any) -> bool:
    return hasattr(told, "part_size")


def _is_merged(told: Any) -> bool:
    return hasattr(told, "body_value_index")


def _is_last(told: Any, back: Sequence[int]) -> bool:
    """Whether a result of the loop is what a next step would begin with."""
    return not hasattr(told, "axis") and told.iteration == -1 and told.body_value_index in back
