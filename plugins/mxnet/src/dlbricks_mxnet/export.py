"""MXNet symbols to ONNX, with MXNet's own exporter.

MXNet 1.9.1 exports for the onnx package of its time. What it needs of that is put back
around each call (:func:`_exporter`), its converters are completed by those of
:mod:`dlbricks_mxnet.export_converters`, and weights are exported as inputs without values:
the IR has no use for them, and writing them takes minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, helper, numpy_helper

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array, TensorSpec, numpy_dtype
from dlbricks_mxnet import export_recurrent as export_recurrent  # adds to the table
from dlbricks_mxnet.export_converters import CONVERTERS, SHAPES, TYPES
from dlbricks_mxnet.export_graph import Symbol, annotate, unique_names
from dlbricks_mxnet.export_upgrade import OPSET, upgrade
from dlbricks_mxnet.framework import import_mxnet, one_line
from dlbricks_mxnet.symbol_file import named

_IR_VERSION = 10
"""Version of ONNX's file format that is written."""


@dataclass(frozen=True)
class _Parameter:
    """Stand-in for a parameter in the exporter, without a value."""

    spec: TensorSpec

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self.spec.dtype)

    def asnumpy(self) -> Array:
        """Zeros that take no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


class _Listed:
    """A symbol that lists its inputs once: the exporter asks for the list at every parameter."""

    def __init__(self, symbol: Symbol) -> None:
        self._symbol = symbol
        self._inputs = symbol.list_inputs()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._symbol, name)

    def list_inputs(self) -> list[str]:
        """Names of all variables."""
        return self._inputs


def export(
    symbol: Symbol, inputs: Mapping[str, TensorSpec], parameters: Mapping[str, TensorSpec | None]
) -> ModelProto:
    """The symbol as ONNX, its parameters as further inputs.

    Args:
        symbol: Of the network's outputs.
        inputs: Specification of what the user feeds, by variable.
        parameters: Variables that are weights; their specification where it is known,
            ``None`` where it follows from the inputs.

    Raises:
        ModelError: If shapes are missing or contradict each other.
        UnsupportedError: If an operator cannot be expressed in ONNX.
    """
    variables = set(symbol.list_inputs())
    inputs = {name: spec for name, spec in inputs.items() if name in variables}
    symbol = unique_names(symbol)
    _check_operators(symbol)
    known = {**{k: spec for k, spec in parameters.items() if spec is not None}, **inputs}
    symbol, specs = annotate(symbol, known)
    fed = [name for name in symbol.list_inputs() if name in inputs]
    with _exporter() as exporter:
        try:
            graph = exporter().create_onnx_graph_proto(
                _Listed(symbol),
                {k: _Parameter(specs[k]) for k in parameters if k in specs},
                [inputs[name].sizes for name in fed],
                [helper.np_dtype_to_tensor_dtype(numpy_dtype(inputs[k].dtype)) for k in fed],
                opset_version=OPSET,
                dynamic=False,
            )
        except UnsupportedError:
            raise
        except (NotImplementedError, AttributeError) as error:
            raise UnsupportedError(
                f"MXNet's exporter cannot express this network in ONNX: {one_line(error)}"
            ) from error
    upgrade(graph)
    _tidy(graph)
    _set_outputs(graph, json.loads(symbol.tojson()))
    _drop_unread(graph, set(parameters))
    proto = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="mxnet",
    )
    onnx.checker.check_model(proto)
    _forget_ambiguous_shapes(proto.graph)
    return proto


def fill(proto: ModelProto, values: Mapping[str, Array]) -> ModelProto:
    """Result of :func:`export`, completed with the values of its parameters."""
    filled = ModelProto()
    filled.CopyFrom(proto)
    del filled.graph.input[:]
    filled.graph.input.extend(value for value in proto.graph.input if value.name not in values)
    filled.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(values[value.name]), value.name)
        for value in proto.graph.input
        if value.name in values
    )
    return filled


def _check_operators(symbol: Symbol) -> None:
    with _exporter() as exporter:
        known = {op for version in exporter.registry_.values() for op in version}
    nodes = json.loads(symbol.tojson())["nodes"]
    missing = [node for node in nodes if node["op"] not in known]
    if missing:
        raise UnsupportedError(
            f"no ONNX counterpart of the MXNet operator{'s' * (len(missing) > 1)} {named(missing)}",
            hint="Replace them in the network, or export it to ONNX another way.",
        )


@contextmanager
def _exporter() -> Iterator[Any]:
    """MXNet's exporter with what it needs of an older onnx and with our converters.

    All changes are undone at the end, so that they do not affect other code in the process.
    """
    with _old_onnx():
        from mxnet.onnx.mx2onnx import _op_translations  # noqa: F401  fills the registry
        from mxnet.onnx.mx2onnx._export_onnx import MXNetGraph

        registry = {version: dict(table) for version, table in MXNetGraph.registry_.items()}
        for op, converter in CONVERTERS.items():
            MXNetGraph.register(op, OPSET)(converter)
        try:
            yield MXNetGraph
        finally:
            MXNetGraph.registry_.clear()
            MXNetGraph.registry_.update(registry)


@contextmanager
def _old_onnx() -> Iterator[None]:
    """Puts ``onnx.mapping`` back, and keeps the checker from asking for the newest opset."""
    import_mxnet()
    mapping = ModuleType("onnx.mapping")
    types = {
        number: np.dtype(helper.tensor_dtype_to_np_dtype(number))
        for number in onnx.TensorProto.DataType.values()
        if number != onnx.TensorProto.UNDEFINED
    }
    mapping.TENSOR_TYPE_TO_NP_TYPE = types  # type: ignore[attr-defined]
    mapping.NP_TYPE_TO_TENSOR_TYPE = {v: k for k, v in reversed(types.items())}  # type: ignore[attr-defined]
    saved = sys.modules.get("onnx.mapping"), getattr(onnx, "mapping", None)
    check = onnx.checker.check_graph
    sys.modules["onnx.mapping"] = mapping
    onnx.mapping = mapping  # type: ignore[attr-defined]
    onnx.checker.check_graph = lambda graph: None
    try:
        yield
    finally:
        onnx.checker.check_graph = check
        if saved[0] is None:
            del sys.modules["onnx.mapping"]
        else:
            sys.modules["onnx.mapping"] = saved[0]
        if saved[1] is None:
            del onnx.mapping  # type: ignore[attr-defined]
        else:
            onnx.mapping = saved[1]  # type: ignore[attr-defined]


def _tidy(graph: GraphProto) -> None:
    """Drops what the exporter writes twice: helpers named after an input that many read."""
    initializers = {tensor.name: tensor for tensor in reversed(graph.initializer)}
    nodes = {tuple(node.output): node for node in reversed(graph.node)}
    kept = [node for node in graph.node if nodes[tuple(node.output)] is node]
    # `initializers` and `nodes` hold the first of each name; order is the exporter's.
    first = [tensor for tensor in graph.initializer if initializers[tensor.name] is tensor]
    for tensor in graph.initializer:
        if tensor != initializers[tensor.name]:
            raise UnsupportedError(
                f"MXNet's exporter gives two constants the name {tensor.name!r}",
                hint="Rename the operator or variable that it comes from.",
            )
    del graph.initializer[:]
    graph.initializer.extend(first)
    del graph.node[:]
    graph.node.extend(kept)


def _set_outputs(graph: GraphProto, symbol: Mapping[str, Any]) -> None:
    """Names the outputs in the symbol's order, each once."""
    produced = {out for node in graph.node for out in node.output}
    produced.update(value.name for value in (*graph.input, *graph.initializer))
    outputs: dict[str, onnx.ValueInfoProto] = {}
    for node_index, position, *_ in symbol["heads"]:
        node = symbol["nodes"][node_index]
        name = node["name"]
        if position or name not in produced:
            name = f"{name}{position}"
        dtype = json.loads(node["attrs"][TYPES])[position]
        shape = json.loads(node["attrs"][SHAPES])[position]
        number = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
        outputs.setdefault(name, helper.make_tensor_value_info(name, number, shape))
    del graph.output[:]
    graph.output.extend(outputs.values())


def _drop_unread(graph: GraphProto, parameters: set[str]) -> None:
    """Drops unused parameters, such as a scale that is fixed to one."""
    read = {name for node in graph.node for name in node.input}
    read.update(value.name for value in graph.output)
    kept = [v for v in graph.input if v.name in read or v.name not in parameters]
    del graph.input[:]
    graph.input.extend(kept)


def _forget_ambiguous_shapes(graph: GraphProto) -> None:
    """MXNet states one element along one axis where ONNX may infer no axis at all."""
    for output in graph.output:
        if [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [1]:
            output.type.tensor_type.ClearField("shape")
