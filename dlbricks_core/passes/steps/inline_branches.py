"""Puts the branch of an ``If`` in its place, where the condition is known before the model runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx import GraphProto, ModelProto, helper

from dlbricks_core.errors import INVALID_MODEL, ModelError
from dlbricks_core.ir import Attribute, Layer, RawModel, Subgraph, read_model
from dlbricks_core.ir.attributes import has_subgraphs
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _inline_branches(layer: Layer, lowering: Lowering) -> Layer | None:
    if not has_subgraphs(layer.attributes):
        return layer
    branch = _chosen_branch(layer, lowering)
    if branch is None:
        lowering.add_opaque(layer, f"subgraph ({layer.op}){_decided_by(layer, lowering)}")
        return None
    for name, spec in branch.tensors.items():
        lowering.declared.setdefault(name, spec)
    for name in branch.weights:
        lowering.tensors[name] = branch.tensors[name]
        lowering.add_weight(name, branch.constants.get(name))
    lowering.inlined = True
    lowering.captured.update(name for inner in branch.layers for name in inner.captures)
    for inner in branch.layers:
        lowering.take(inner)
    return None


def _decided_by(layer: Layer, lowering: Lowering) -> str:
    """End of a reason that names the inputs that decide the branch of an ``If``; may be empty."""
    made = {name: each for each in lowering.layers for name in each.outputs}
    seen: set[str] = set()
    asked = [layer.inputs[0]] if layer.op == "If" else []
    while asked:
        name = asked.pop()
        if name not in seen:
            seen.add(name)
            asked += made[name].reads if name in made else ()
    deciding = [name for name in lowering.model.inputs if name in seen]
    specs = [lowering.tensors[name] for name in deciding]
    if not specs or not all(spec.is_static and spec.elements == 1 for spec in specs):
        return ""
    return f", decided by the input {' and '.join(deciding)}, which is given no value"


def _chosen_branch(layer: Layer, lowering: Lowering) -> RawModel | None:
    """The branch that always runs, with names that fit the enclosing model.

    Its layers read tensors of the enclosing model and produce the layer's outputs.

    Returns:
        ``None`` if the layer is no ``If``, or its condition is not known.

    Raises:
        ModelError: If the branch cannot be read.
    """
    condition = lowering.values.get(layer.inputs[0]) if layer.op == "If" else None
    if condition is None:
        return None
    key = "then_branch" if condition.any() else "else_branch"
    graph = layer.attributes.get(key)
    if not isinstance(graph, Subgraph):
        raise ModelError(f"If has no {key}", hint=INVALID_MODEL)
    outside = [name for name in layer.captures if name in lowering.tensors]
    proto = ModelProto(graph=GraphProto.FromString(graph.proto))
    opsets = lowering.model.opsets
    known = {**opsets, "": layer.opset} if layer.opset else opsets
    proto.opset_import.extend(helper.make_opsetid(*item) for item in known.items())
    proto.graph.input.extend(helper.make_empty_tensor_value_info(name) for name in outside)
    branch = read_model(proto, name=key)
    if len(branch.outputs) != len(layer.outputs):
        raise ModelError(f"If has {len(layer.outputs)} results, its {key} {len(branch.outputs)}",
                         hint=INVALID_MODEL)  # fmt: skip
    return _renamed(branch, layer, set(outside))


def _renamed(branch: RawModel, layer: Layer, outside: set[str]) -> RawModel:
    prefix = next(name for name in layer.outputs if name)
    names = {name: name if name in outside or not name else f"{prefix}/{name}"
             for name in ("", *branch.tensors)}  # fmt: skip
    # The branch's results get the layer's names by an Identity that normalization removes.
    results = tuple(
        Layer("Identity", (names[inner],), (outer,))
        for inner, outer in zip(branch.outputs, layer.outputs, strict=True)
        if outer
    )
    layers = tuple(
        replace(
            inner,
            inputs=tuple(names[name] for name in inner.inputs),
            outputs=tuple(names[name] for name in inner.outputs),
            captures=tuple(names[name] for name in inner.captures),
            attributes={key: _inside(value, names) for key, value in inner.attributes.items()},
            opset=inner.opset or layer.opset,
        )
        for inner in branch.layers
    )
    return replace(
        branch,
        layers=layers + results,
        tensors={names[name]: spec for name, spec in branch.tensors.items()
                 if name not in outside},
        weights=frozenset(names[name] for name in branch.weights),
        constants={names[name]: value for name, value in branch.constants.items()},
    )  # fmt: skip


def _inside(value: Attribute, names: Mapping[str, str]) -> Attribute:
    """An attribute, with the enclosing model's new names in the subgraph that it may be."""
    if not isinstance(value, Subgraph):
        return value
    graph = GraphProto.FromString(value.proto)
    _rename_captured(graph, names)
    return Subgraph(graph.SerializeToString())


def _rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Gives what the graph reads of its enclosing model other names, in place."""
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


INLINE_BRANCHES: Step = Pass.of(
    _inline_branches,
    requires=[Property.NAMES_RESOLVED, Property.MAY_BE_TIMED],
    ensures=[Property.NO_SUBGRAPH],
)
