"""Subgraphs as layers of the model around them: reading, renaming, lowering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import GraphProto, ModelProto, helper

from dlbricks_core.errors import INVALID_MODEL, ModelError
from dlbricks_core.ir import (
    CANONICAL_OPSET,
    Array,
    Attribute,
    Layer,
    RawModel,
    Subgraph,
    TensorSpec,
    dtype_name,
    read_model,
)
from dlbricks_core.ir.attributes import has_subgraphs
from dlbricks_core.passes.lowering import Lowering, decided_by
from dlbricks_core.passes.pipeline import Property, properties


def read_subgraph(layer: Layer, key: str, lowering: Lowering) -> RawModel:
    """A subgraph of a layer.

    Raises:
        ModelError: If it cannot be read.
    """
    graph = layer.attributes.get(key)
    if not isinstance(graph, Subgraph):
        raise ModelError(f"{layer.op} has no {key}", hint=INVALID_MODEL)
    outside = [name for name in layer.captures if name in lowering.tensors]
    proto = ModelProto(graph=GraphProto.FromString(graph.proto))
    opsets = lowering.model.opsets
    known = {**opsets, "": layer.opset} if layer.opset else opsets
    proto.opset_import.extend(helper.make_opsetid(*item) for item in known.items())
    proto.graph.input.extend(helper.make_empty_tensor_value_info(name) for name in outside)
    return read_model(proto, name=key)


def renamed(branch: RawModel, layer: Layer, names: Mapping[str, str]) -> RawModel:
    """A subgraph with names that fit the enclosing model.

    Args:
        branch: The subgraph.
        layer: The layer that it belongs to.
        names: New name of each of its tensors; what it reads of the enclosing model keeps its own.
    """
    layers = tuple(
        replace(
            inner.renamed(names.__getitem__),
            attributes={key: _inside(value, names) for key, value in inner.attributes.items()},
            opset=inner.opset or layer.opset,
        )
        for inner in branch.layers
    )
    given = set(branch.inputs)
    return replace(
        branch,
        layers=layers,
        tensors={names[name]: spec for name, spec in branch.tensors.items() if name not in given},
        weights=frozenset(names[name] for name in branch.weights),
        constants={names[name]: value for name, value in branch.constants.items()},
    )


def take_all(branch: RawModel, lowering: Lowering) -> None:
    """Lowers the layers of a renamed subgraph in place of the layer that it belongs to."""
    for name, spec in branch.tensors.items():
        lowering.declared.setdefault(name, spec)
    for name in branch.weights:
        lowering.tensors[name] = branch.tensors[name]
        lowering.add_weight(name, branch.constants.get(name))
    lowering.inlined = True
    lowering.captured.update(name for inner in branch.layers for name in inner.captures)
    for inner in branch.layers:
        lowering.take(inner)


def _inside(value: Attribute, names: Mapping[str, str]) -> Attribute:
    """An attribute, with the enclosing model's new names in the subgraph that it may be."""
    if not isinstance(value, Subgraph):
        return value
    graph = GraphProto.FromString(value.proto)
    _rename_captured(graph, names)
    return Subgraph(graph.SerializeToString())


def _rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames, in place, the tensors that the graph reads from its enclosing model."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    captured = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = [captured.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                _rename_captured(inner, captured)
    for value in graph.output:
        value.name = captured.get(value.name, value.name)


# Writes a Loop or Scan out, step by step, where the number of its steps is known.

_MOST_LAYERS = 20_000
"""Maximum layers that one loop is written out as."""

_FIRST_SCAN_OPSET = 9
"""First operator set in which a Scan has no batch axis."""


@dataclass
class _Steps:
    """The steps of a loop as far as they are written out.

    Attributes:
        layer: The loop.
        body: Its body.
        lowering: The model around it.
        states: Tensors that the next step reads.
        rows: Results of each step that are stacked, by position.
    """

    layer: Layer
    body: RawModel
    lowering: Lowering
    states: list[str]
    rows: list[list[str]]

    @property
    def prefix(self) -> str:
        """Beginning of the names of the body's tensors."""
        return next(name for name in self.layer.outputs if name)

    def constant(self, name: str, value: Array) -> str:
        """Adds a weight with a value."""
        made = self.lowering.new_name(f"{self.prefix}/{name}")
        self.lowering.tensors[made] = TensorSpec(dtype_name(value.dtype), value.shape)
        self.lowering.add_weight(made, value)
        return made

    def step(self, number: int, given: Sequence[str], first: int) -> None:
        """Writes a step.

        Args:
            number: Its number, from 0.
            given: Tensor for each input of the body.
            first: Position of the first state among the results of the body.
        """
        self.lowering.loop_steps += 1
        names = {
            name: f"{self.prefix}/{name}" if name in self.body.weights else
            f"{self.prefix}/{number}/{name}"
            for name in self.body.tensors
        }  # fmt: skip
        names.update(zip(self.body.inputs, given, strict=False))
        names.update({name: name for name in outside(self.layer, self.lowering)})
        body = renamed(self.body, self.layer, names)
        # Frameworks refuse two layers of one name.
        layers = tuple(replace(each, name=each.name and f"{each.name}/{number}")
                       for each in body.layers)  # fmt: skip
        take_all(replace(body, layers=layers), self.lowering)
        results = [names[name] for name in self.body.outputs[first:]]
        count = len(self.states)
        self.states = results[:count]
        for rows, name in zip(self.rows, results[count:], strict=True):
            rows.append(name)

    def finish(self, axes: Sequence[int], backwards: Sequence[int]) -> None:
        """Gives the results of the last step, and the stacked ones, the names of the loop's."""
        count = len(self.states)
        for state, name in zip(self.states, self.layer.outputs, strict=False):
            if name:
                self.lowering.take(Layer("Identity", (state,), (name,)))
        for at, (rows, name) in enumerate(zip(self.rows, self.layer.outputs[count:], strict=False)):
            if name:
                self._stack(rows[::-1] if backwards[at] else rows, name, axes[at])

    def _stack(self, rows: Sequence[str], name: str, axis: int) -> None:
        axes = self.constant("axes", np.array([axis], np.int64))
        parts = [f"{row}/row" for row in rows]
        for row, part in zip(rows, parts, strict=True):
            layer = Layer("Unsqueeze", (row, axes), (part,), opset=CANONICAL_OPSET)
            self.lowering.take(layer)
        joined = Layer("Concat", tuple(parts), (name,), {"axis": axis}, opset=CANONICAL_OPSET)
        self.lowering.take(joined)


def outside(layer: Layer, lowering: Lowering) -> Iterator[str]:
    """Tensors around a loop that its body reads."""
    return (name for name in layer.captures if name in lowering.tensors)


def unrolled(layer: Layer, lowering: Lowering) -> bool:
    """Writes a loop out.

    Returns:
        Whether that was possible; otherwise the model around it is as before.

    Raises:
        ModelError: If the body cannot be read.
    """
    write = _LOOPS.get(layer.op)
    if write is None or layer.domain or not any(layer.outputs):
        return False
    before = lowering.state()
    done = write(layer, lowering)
    if not done:
        lowering.restore(before)
    return done


def _loop(layer: Layer, lowering: Lowering) -> bool:
    endless = not layer.inputs[0]
    trips = _MOST_LAYERS if endless else _number(lowering, layer.inputs[0])
    going = _number(lowering, layer.inputs[1]) if layer.inputs[1:2] not in ((), ("",)) else 1
    if trips is None or going is None:
        return False
    states = [*layer.inputs[2:]]
    body = read_subgraph(layer, "body", lowering)
    rows: list[list[str]] = [[] for _ in body.outputs[1 + len(states) :]]
    steps = _Steps(layer, body, lowering, states, rows)
    most = _MOST_LAYERS // max(len(body.layers), 1)
    if (trips > most and not endless) or (rows and (trips < 1 or not going)):
        return False
    true = steps.constant("true", np.array(True))
    for number in range(min(trips, most) if going else 0):
        count = steps.constant(f"step.{number}", np.array(number, np.int64))
        steps.step(number, [count, true, *steps.states], 1)
        name = f"{steps.prefix}/{number}/{body.outputs[0]}"
        goes_on = true if body.outputs[0] == body.inputs[1] else name
        more = _number(lowering, lowering.aliases.get(goes_on, goes_on))
        if body.outputs[0] in body.weights:
            more = _number(lowering, f"{steps.prefix}/{body.outputs[0]}")
        if more is None:
            return False
        if not more:
            break
    else:
        if endless and going:
            return False
    steps.finish([0] * len(rows), [0] * len(rows))
    return True


def _scan(layer: Layer, lowering: Lowering) -> bool:
    read = layer.attributes.get("num_scan_inputs")
    if lowering.opset_of(layer) < _FIRST_SCAN_OPSET or not isinstance(read, int):
        return False
    states, scanned = [*layer.inputs[:-read]], layer.inputs[-read:]
    specs = [lowering.spec(name) for name in scanned]
    if not all(spec.is_static and spec.rank for spec in specs):
        return False
    axes = [axis % spec.rank for axis, spec in
            zip(_by_result(layer, "scan_input_axes", read), specs, strict=True)]  # fmt: skip
    lengths = {spec.sizes[axis] for spec, axis in zip(specs, axes, strict=True)}
    body = read_subgraph(layer, "body", lowering)
    (length, *others) = lengths
    if others or not length or length * max(len(body.layers), 1) > _MOST_LAYERS:
        return False
    rows: list[list[str]] = [[] for _ in body.outputs[len(states) :]]
    steps = _Steps(layer, body, lowering, states, rows)
    turned = _by_result(layer, "scan_input_directions", read)
    for number in range(length):
        picked = []
        for at, (name, axis) in enumerate(zip(scanned, axes, strict=True)):
            place = length - 1 - number if turned[at] else number
            index = steps.constant(f"place.{place}", np.array(place, np.int64))
            picked.append(f"{steps.prefix}/{number}/scanned.{at}")
            gather = Layer("Gather", (name, index), (picked[-1],), {"axis": axis},
                           opset=CANONICAL_OPSET)  # fmt: skip
            lowering.take(gather)
        steps.step(number, [*steps.states, *picked], 0)
    axes_out = _by_result(layer, "scan_output_axes", len(rows))
    if any(axis < 0 for axis in axes_out):
        return False
    steps.finish(axes_out, _by_result(layer, "scan_output_directions", len(rows)))
    return True


def too_long(layer: Layer, lowering: Lowering) -> str:
    """End of a reason that says how many layers a loop would be written out as at most.

    Returns:
        An empty text where that is not known, or is below the limit.

    Raises:
        ModelError: If the body cannot be read.
    """
    count = _COUNTS.get(layer.op)
    steps = None if count is None or layer.domain else count(layer, lowering)
    if steps is None:
        return ""
    layers = steps * len(read_subgraph(layer, "body", lowering).layers)
    if layers <= _MOST_LAYERS:
        return ""
    return (
        f" of up to {steps:,} steps: {layers:,} layers if it were written out, above "
        f"{_MOST_LAYERS:,}"
    )


def _scanned(layer: Layer, lowering: Lowering) -> int | None:
    """Number of steps of a Scan, where it is known."""
    read = layer.attributes.get("num_scan_inputs")
    spec = lowering.spec(layer.inputs[-1])
    if not isinstance(read, int) or not spec.is_static or not spec.rank:
        return None
    return spec.sizes[_by_result(layer, "scan_input_axes", read)[-1]]


_COUNTS: Mapping[str, Callable[[Layer, Lowering], int | None]] = {
    "Loop": lambda layer, lowering: _number(lowering, layer.inputs[0]),
    "Scan": _scanned,
}
"""Number of steps of a loop, where it is known."""

_LOOPS: Mapping[str, Callable[[Layer, Lowering], bool]] = {"Loop": _loop, "Scan": _scan}


def _by_result(layer: Layer, name: str, count: int) -> Sequence[int]:
    found = layer.attributes.get(name)
    return found if isinstance(found, tuple) and len(found) == count else (0,) * count


def _number(lowering: Lowering, name: str) -> int | None:
    """Known value of a tensor of one element."""
    value = lowering.values.get(name) if name else None
    return int(value.item()) if value is not None and value.size == 1 else None


@properties(
    requires=[Property.NAMES_RESOLVED, Property.MAY_BE_TIMED], ensures=[Property.NO_SUBGRAPH]
)
def inline_branches(layer: Layer, lowering: Lowering) -> Layer | None:
    """Puts a branch or the steps of a loop in place of an ``If``, ``Loop`` or ``Scan``.

    The condition of an ``If``, and the number of steps of a loop, must be known in advance.
    """
    if not has_subgraphs(layer.attributes):
        return layer
    if not (_chosen(layer, lowering) or unrolled(layer, lowering)):
        _declare_states(layer, lowering)
        long = too_long(layer, lowering)
        decided = decided_by(layer, lowering) or ("" if long else _undecided(layer, lowering))
        lowering.add_opaque(layer, f"subgraph ({layer.op}{long}){decided}")
    return None


def _undecided(layer: Layer, lowering: Lowering) -> str:
    """End of a reason for a layer that no input decides."""
    if layer.domain:
        return ""
    count = _COUNTS.get(layer.op)
    if count is not None and count(layer, lowering) == 0:
        return ", which takes no step and stacks results of none"
    return ", decided by values that it computes as it runs" if layer.op in _DECIDED else ""


_DECIDED = frozenset({"If", "Loop"})
"""Operators whose subgraphs run by the value of an input."""


def _declare_states(layer: Layer, lowering: Lowering) -> None:
    """Records the shapes that a loop's body states for values passed from step to step."""
    first = {"Loop": 1, "Scan": 0}.get(layer.op)
    if first is None or layer.domain:
        return
    body = read_subgraph(layer, "body", lowering)
    scanned = layer.attributes.get("num_scan_inputs", 2)
    count = len(layer.inputs) - (scanned if isinstance(scanned, int) else 2)
    states = body.outputs[first : first + count]
    for name, inner in zip(layer.outputs, states, strict=False):
        if body.tensors[inner].is_static:
            lowering.declared[name] = body.tensors[inner]


def _chosen(layer: Layer, lowering: Lowering) -> bool:
    """Puts the branch that always runs in place of an ``If``, if its condition is known.

    Raises:
        ModelError: If the branch cannot be read.
    """
    condition = lowering.values.get(layer.inputs[0]) if layer.op == "If" else None
    if condition is None:
        return False
    key = "then_branch" if condition.any() else "else_branch"
    branch = read_subgraph(layer, key, lowering)
    if len(branch.outputs) != len(layer.outputs):
        raise ModelError(f"If has {len(layer.outputs)} results, its {key} {len(branch.outputs)}",
                         hint=INVALID_MODEL)  # fmt: skip
    prefix = next(name for name in layer.outputs if name)
    names = {name: f"{prefix}/{name}" for name in branch.tensors}
    names.update({name: name for name in outside(layer, lowering)})
    take_all(renamed(branch, layer, names), lowering)
    for inner, outer in zip(branch.outputs, layer.outputs, strict=True):
        if outer:  # an Identity that normalization removes
            lowering.take(Layer("Identity", (names[inner],), (outer,)))
    return True
