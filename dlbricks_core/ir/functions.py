"""Puts the bodies of a model's functions where the functions are called.

A function may follow another version of an operator set than the model. Each node of its body then
states that version (:func:`opset_of`), and the engine reads the layer according to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from dlbricks_core.errors import INVALID_MODEL, ModelError, shown
from dlbricks_core.ir.limits import MAX_LAYERS, MAX_NESTED_CALLS

_OPSET = "dlbricks.opset"
_Key = tuple[str, str, str]


def domain_of(name: str) -> str:
    """Name of an operator domain; empty for ``ai.onnx``, which files also write in full."""
    return "" if name == "ai.onnx" else name


def opset_of(node: NodeProto) -> int:
    """Version of the operator set that a node follows; 0 for the version of the model."""
    for entry in node.metadata_props:
        if entry.key == _OPSET and entry.value.isdecimal():
            return int(entry.value)
    return 0


def graphs_in(attribute: AttributeProto) -> Sequence[GraphProto]:
    """The graphs that an attribute holds."""
    if attribute.type == AttributeProto.GRAPH:
        return (attribute.g,)
    return attribute.graphs if attribute.type == AttributeProto.GRAPHS else ()


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        yield from graphs_in(attribute)


def inlined(proto: ModelProto, opsets: dict[str, int]) -> Sequence[NodeProto]:
    """Nodes of a model's graph, with the bodies of functions in the place of their calls.

    The model is not changed. The name of a body's node begins with the name of the call.

    Args:
        proto: The model; all names in it are valid text.
        opsets: Operator set versions of the model by domain. Domains that only functions name
            are added.

    Raises:
        ModelError: If a function is defined twice or calls itself, or if all bodies together have
            too many layers.
    """
    if not proto.functions:
        return tuple(proto.graph.node)
    functions: dict[_Key, FunctionProto] = {}
    for function in proto.functions:
        key = (domain_of(function.domain), function.name, function.overload)
        if key in functions:
            raise ModelError(f"the function {shown(function.name)} is defined twice",
                             hint=INVALID_MODEL)  # fmt: skip
        functions[key] = function
        for entry in function.opset_import:
            opsets.setdefault(domain_of(entry.domain), entry.version)
    _Sizes(functions).check(proto.graph)
    return list(_Inliner(functions, opsets, _unused_stem(proto)).nodes(proto.graph.node))


def check_layers(count: int) -> None:
    """Checks the number of layers of a model.

    Raises:
        ModelError: If the number exceeds the limit.
    """
    if count > MAX_LAYERS:
        raise ModelError(
            f"it has {count:.3g} layers, functions included; {MAX_LAYERS} are the most",
            hint="No model has so many; the file is damaged, or made to do harm.",
        )


def _key(node: NodeProto) -> _Key:
    return (domain_of(node.domain), node.op_type, node.overload)


class _Sizes:
    """Number of layers in the body of each function with all calls expanded, without expanding."""

    def __init__(self, functions: Mapping[_Key, FunctionProto]) -> None:
        self._functions = functions
        self._known: dict[_Key, int] = {}

    def check(self, graph: GraphProto) -> None:
        """Checks the number of layers of the whole graph."""
        check_layers(self._of(graph.node, ()))

    def _of(self, nodes: Iterable[NodeProto], path: tuple[_Key, ...]) -> int:
        return sum(
            self._of_function(_key(node), path)
            if _key(node) in self._functions
            else 1 + sum(self._of(graph.node, path) for graph in subgraphs(node))
            for node in nodes
        )

    def _of_function(self, key: _Key, path: tuple[_Key, ...]) -> int:
        if key in path:
            raise ModelError(f"the function {shown(key[1])} calls itself", hint=INVALID_MODEL)
        if len(path) >= MAX_NESTED_CALLS:
            raise ModelError(
                f"its functions call each other more than {MAX_NESTED_CALLS} deep",
                hint="Inline them: onnx.inliner.inline_local_functions.",
            )
        if key not in self._known:
            self._known[key] = self._of(self._functions[key].node, (*path, key))
        return self._known[key]


def _unused_stem(proto: ModelProto) -> str:
    """Beginning of names that no name in the model's graph has."""
    names = set(_all_names(proto.graph))
    stem = "call"
    while any(name.startswith(stem) for name in names):
        stem += "_"
    return stem


def _all_names(graph: GraphProto) -> Iterator[str]:
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in subgraphs(node):
            yield from _all_names(inner)


@dataclass(frozen=True)
class _Scope:
    """Meaning of the names in a function's body, for one call of the function.

    Attributes:
        names: Names outside of the function, by the names of tensors in the body. All other
            tensors of the body get the prefix.
        attributes: Values of the function's attributes.
        prefix: Beginning of the names of tensors that the body defines.
        label: Name of the call, for people to read.
        opsets: Operator set versions that the function follows, by domain.
    """

    names: dict[str, str] = field(default_factory=dict)
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    prefix: str = ""
    label: str = ""
    opsets: Mapping[str, int] = field(default_factory=dict)

    def name(self, name: str) -> str:
        """Name of a tensor of the body outside of the function."""
        return self.names.get(name, f"{self.prefix}{name}") if name else ""


class _Inliner:
    """Expands calls; every call has a prefix of its own for the names inside."""

    def __init__(
        self, functions: Mapping[_Key, FunctionProto], opsets: Mapping[str, int], stem: str
    ) -> None:
        self._functions = functions
        self._opsets = opsets
        self._stem = stem
        self._calls = 0

    def nodes(self, nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
        """The nodes, with calls expanded; nodes without a call are the same objects."""
        for node in nodes:
            function = self._functions.get(_key(node))
            if function is not None:
                yield from self._expanded(function, node)
            elif any(True for _ in subgraphs(node)):
                copy = NodeProto()
                copy.CopyFrom(node)
                for graph in subgraphs(copy):
                    inside = list(self.nodes(graph.node))
                    del graph.node[:]
                    graph.node.extend(inside)
                yield copy
            else:
                yield node

    def _expanded(self, function: FunctionProto, call: NodeProto) -> Iterator[NodeProto]:
        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise ModelError(
                f"the call {shown(call.name)} of the function {shown(function.name)} has more "
                "inputs or outputs than the function",
                hint=INVALID_MODEL,
            )
        self._calls += 1
        scope = self._scope(function, call, f"{self._stem}{self._calls}/")
        body = [self._placed(node, scope) for node in function.node]
        # A result that is an input of the function needs a layer that gives it its name.
        for formal, actual in zip(function.output, call.output, strict=False):
            if actual and scope.name(formal) != actual:
                body.append(NodeProto(op_type="Identity", input=[scope.name(formal)],
                                      output=[actual], name=scope.label))  # fmt: skip
        yield from self.nodes(body)

    def _scope(self, function: FunctionProto, call: NodeProto, prefix: str) -> _Scope:
        given = {attribute.name: attribute for attribute in call.attribute}
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        inputs = [*call.input, *[""] * (len(function.input) - len(call.input))]
        names = dict(zip(function.input, inputs, strict=True))
        for formal, actual in zip(function.output, call.output, strict=False):
            if actual:
                names.setdefault(formal, actual)
        opsets = {domain_of(entry.domain): entry.version for entry in function.opset_import}
        label = call.name or call.op_type
        return _Scope(names, {**defaults, **given}, prefix, label, opsets)

    def _placed(self, node: NodeProto, scope: _Scope) -> NodeProto:
        """A copy of a body's node for the place where the function is called."""
        placed = NodeProto(op_type=node.op_type, domain=node.domain, overload=node.overload,
                           name=f"{scope.label}/{node.name or node.op_type}",
                           input=[scope.name(name) for name in node.input],
                           output=[scope.name(name) for name in node.output])  # fmt: skip
        for attribute in node.attribute:
            name = attribute.ref_attr_name
            actual = scope.attributes.get(name) if name else attribute
            if actual is not None:
                copy = placed.attribute.add()
                copy.CopyFrom(actual)
                copy.name = attribute.name
                if actual is attribute:  # the graph that it may hold is the function's own
                    for graph in graphs_in(copy):
                        self._place(graph, scope)
        domain = domain_of(node.domain)
        version = scope.opsets.get(domain, 0)
        if version and version != self._opsets.get(domain):
            placed.metadata_props.add(key=_OPSET, value=str(version))
        return placed

    def _place(self, graph: GraphProto, scope: _Scope) -> None:
        """Changes a graph inside of a body in the same way, in place."""
        tensors = [*graph.initializer, *(each.values for each in graph.sparse_initializer)]
        for value in (*graph.input, *graph.output, *graph.value_info, *tensors):
            value.name = scope.name(value.name)
        nodes = [self._placed(node, scope) for node in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
