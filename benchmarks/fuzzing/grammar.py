"""ONNX files that follow the grammar of operators: types, shapes, subgraphs, attributes, functions.

Random bytes find nothing any more. Here each part is one that the schemas of operators allow, or
nearly: its values are those at which shapes, axes and types end.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

Schema = Any

_DOMAINS = ("", "", "", "", "", "", "ai.onnx.ml", "com.microsoft")
_FLOW = ("If", "Loop", "Scan")
_DEEPEST = 3
_FITTING, _TRIES, _MOST_S = 0.95, 12, 5
"""Share of the parts that fit the others, the tries to find one, and the seconds of a try."""

_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 8, -1, 65_536, 2**31, 2**62, "N", "M", "")
_SHAPES: tuple[Any, ...] = (
    *((2, 3, 4, 4), (2, 3, 4, 4), (1, 3, 8, 8), (2, 3), (2, 3), (3, 4), (4, 3), (3,), (1,), ()),
    *(("N", 3), ("N", 3, 8, 8), (2, 0), (1, 1, 1, 1, 1), (2, 4, 6), (2, 4, 6), (2, 8), (5, 4)),
)
_TYPES = {
    **{f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()},
    "tensor(float16)": TensorProto.FLOAT16,
}
_COMMON = (TensorProto.FLOAT,) * 6 + (TensorProto.INT64,) * 3 + (TensorProto.BOOL,)
_INTS = (-(2**63), -(2**31), -5, -2, -1, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 7, 1000, 2**31, 2**62)
_FLOATS = (0.0, -0.0, 1.0, 0.5, -1.0, 1e-45, 3e38, float("inf"), float("nan"))
_TEXTS = (
    *(
        "NOTSET",
        "SAME_UPPER",
        "SAME_LOWER",
        "VALID",
        "constant",
        "reflect",
        "edge",
        "wrap",
        "linear",
    ),
    *("nearest", "cubic", "forward", "reverse", "bidirectional", "asymmetric", "half_pixel", "max"),
    *("align_corners", "bilinear", "none", "add", "mul", "DCR", "CRD", "floor", "gelu", "Tanh", ""),
    *("ij,jk->ik", "...i,...i->...", "ii->", "->", "a" * 200 + "->a", "\x1b[31m", "n" * 10_000),
)


def with_another_part(content: bytes, rng: random.Random) -> bytes:
    """A model with one more part; a new model of nothing but an input if the content is empty."""
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        return content
    if not model.opset_import:
        _begin(model, rng)
    fitting = rng.random() < _FITTING
    for _ in range(_TRIES if fitting else 1):
        more = ModelProto()
        more.CopyFrom(model)
        rng.choices(_PARTS, _CHANCES)[0](more, rng)
        if more.graph.node and rng.random() < 0.9:
            _name_results(more.graph, rng)
        if not fitting or _fits(more):
            return more.SerializeToString()
    return content


def _fits(model: ModelProto) -> bool:
    """Whether shapes of the model follow from each other."""
    global _inference
    if not (_inference and _inference.belongs_here):
        _inference = _Inference()
    return _inference.fits(model.SerializeToString())


class _Inference:
    """A process that infers shapes with the package's own functions, which end some processes."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._line, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            self._line.close()
            _infer(theirs)
        theirs.close()

    @property
    def belongs_here(self) -> bool:
        """Whether this process has begun it: one that was forked from this one shares its line."""
        return self._owner == os.getpid()

    def fits(self, content: bytes) -> bool:
        """Whether shapes of a model follow from each other; if asking ends the process, not."""
        global _inference
        try:
            self._line.sendall(_LENGTH.pack(len(content)) + content)
            told = self._line.recv(1)
        except OSError:
            told = b""
        if not told:
            self._line.close()
            os.waitpid(self._pid, 0)
            _inference = None
        return told == b"1"


_inference: _Inference | None = None

_LENGTH = struct.Struct("I")


def _infer(line: socket.socket) -> NoReturn:
    """Answers for models, until the other end is closed."""
    with line.makefile("rb") as read:
        while head := read.read(_LENGTH.size):
            model = ModelProto.FromString(read.read(*_LENGTH.unpack(head)))
            signal.alarm(_MOST_S)
            try:
                onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
            except BaseException:  # noqa: BLE001 - of several classes without a common one
                line.sendall(b"0")
            else:
                line.sendall(b"1")
            signal.alarm(0)
    os._exit(0)


def _begin(model: ModelProto, rng: random.Random) -> None:
    model.ir_version = rng.choice((3, 4, 7, 8, 10, 12))
    version = rng.choice((7, 7, 9, 11, 13, 17, 18, 20, 21, 22, 23, onnx.defs.onnx_opset_version()))
    for domain, number in (("", version), ("ai.onnx.ml", 3), ("com.microsoft", 1), ("local", 1)):
        model.opset_import.add(domain=domain, version=number)
    model.graph.name = "g"
    for _ in range(3):
        _input(model, rng)
        _weight(model, rng)


def _input(model: ModelProto, rng: random.Random) -> None:
    kind = rng.choice((*_COMMON, *_TYPES.values()))
    name = f"i{len(model.graph.input)}"
    made = helper.make_tensor_type_proto(kind, _shape(rng))
    wrap = rng.random()
    if wrap < 0.04:
        made = helper.make_sequence_type_proto(made)
    elif wrap < 0.08:
        made = helper.make_optional_type_proto(made)
    elif wrap < 0.1:
        made = onnx.TypeProto()
    model.graph.input.append(helper.make_value_info(name, made))


def _shape(rng: random.Random) -> Sequence[Any] | None:
    if rng.random() < 0.97:
        return rng.choice(_SHAPES)
    return tuple(rng.choice(_SIZES) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 70))))


def _weight(model: ModelProto, rng: random.Random) -> None:
    model.graph.initializer.append(_tensor(rng, f"w{len(model.graph.initializer)}"))


def _tensor(rng: random.Random, name: str = "") -> TensorProto:
    kind = rng.choice((*_COMMON, TensorProto.INT64, TensorProto.INT64, *_TYPES.values()))
    if rng.random() < 0.02:  # sizes without the values that they state
        dims = [each for each in _shape(rng) or () if isinstance(each, int)]
        return TensorProto(name=name, data_type=kind, dims=dims, raw_data=rng.randbytes(8))
    dims = rng.choice(((), (1,), (2,), (3,), (4,), (2, 3), (3, 4), (4, 3, 3, 3), (0,)))
    count = int(np.prod(dims))
    if kind == TensorProto.INT64:
        values = [rng.choice(_INTS) for _ in range(count)]
        return helper.make_tensor(name, kind, dims, values)
    try:
        return helper.make_tensor(name, kind, dims, [rng.choice((0, 1, 2))] * count)
    except (KeyError, TypeError, ValueError, OverflowError):  # no type of tensors, or of texts
        return helper.make_tensor(name, TensorProto.STRING, dims, [b"a"] * count)


@cache
def _schemas(version: int) -> Mapping[str, Schema]:
    """Operators of a version by ``domain/name``, control flow several times."""
    found: dict[str, Schema] = {}
    for each in onnx.defs.get_all_schemas_with_history():
        key = f"{each.domain}/{each.name}"
        last = found.get(key)
        limit = version if each.domain == "" else 3
        if each.since_version <= limit and (not last or last.since_version < each.since_version):
            found[key] = each
    return found


def _node(model: ModelProto, rng: random.Random) -> None:
    _add_node(model.graph, model, rng, {}, 0)


def _add_node(
    graph: GraphProto,
    model: ModelProto,
    rng: random.Random,
    outer: Mapping[str, int],
    depth: int,
) -> None:
    version = next(each.version for each in model.opset_import if not each.domain)
    schemas = _schemas(version)
    names = [f"/{each}" for each in _FLOW if f"/{each}" in schemas]
    flows = rng.random() < 0.12 and names
    schema = schemas[rng.choice(names if flows else sorted(schemas))]
    known = {**outer, **_kinds(graph, schemas)}
    node = NodeProto(op_type=schema.name, domain=schema.domain)
    if rng.random() < 0.03:
        node.domain, node.op_type = rng.choice(_DOMAINS), rng.choice((schema.name, "Strange", ""))
    if model.functions and rng.random() < 0.2:
        node.domain, node.op_type = "local", rng.choice(model.functions).name
    for formal in schema.inputs:
        node.input.extend(_arguments(formal, schema, known, rng))
    while node.input and not node.input[-1]:
        del node.input[-1]
    place = f"d{depth}n{len(graph.node)}{rng.randrange(100) if depth else ''}"
    count = rng.choice((1, 2, 3)) if _varies(schema.outputs) else len(schema.outputs)
    node.output.extend(f"{place}o{each}" for each in range(count))
    for attribute in schema.attributes.values():
        if attribute.required or rng.random() < 0.35:
            made = _attribute(attribute, model, rng, known, depth)
            if made is not None:
                node.attribute.append(made)
    graph.node.append(node)


def _varies(formals: Sequence[Any]) -> bool:
    return any(each.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for each in formals)


def _arguments(
    formal: Any, schema: Schema, known: Mapping[str, int], rng: random.Random
) -> list[str]:
    options = onnx.defs.OpSchema.FormalParameterOption
    if formal.option == options.Optional and rng.random() < 0.6:
        return [""]
    allowed = _allowed(formal, schema)
    fitting = [name for name, kind in known.items() if kind in allowed]
    pool = fitting if fitting and rng.random() < 0.95 else list(known)
    number = rng.choice((0, 1, 2, 3)) if formal.option == options.Variadic else 1
    # Later values are more likely: so a chain comes about.
    return [rng.choice(pool[-6:] if rng.random() < 0.6 else pool) for _ in range(number)]


def _allowed(formal: Any, schema: Schema) -> set[int]:
    for each in schema.type_constraints:
        if each.type_param_str == formal.type_str:
            return {_TYPES[text] for text in each.allowed_type_strs if text in _TYPES}
    return {_TYPES[formal.type_str]} if formal.type_str in _TYPES else set()


def _kinds(graph: GraphProto, schemas: Mapping[str, Schema]) -> dict[str, int]:
    """Element type of each value, as far as types of operators state it."""
    found = {each.name: each.type.tensor_type.elem_type for each in graph.input}
    found |= {each.name: each.data_type for each in graph.initializer}
    for node in graph.node:
        schema = schemas.get(f"{node.domain}/{node.op_type}")
        formals = list(schema.outputs) if schema else []
        given = dict(zip([f.type_str for f in schema.inputs] if schema else [], node.input))  # noqa: B905
        for place, name in enumerate(node.output):
            formal = formals[min(place, len(formals) - 1)] if formals else None
            source = given.get(formal.type_str, "") if formal else ""
            usual = min(_allowed(formal, schema), default=1) if formal else 1
            found[name] = found.get(source, usual)
    return found


def _attribute(
    attribute: Any, model: ModelProto, rng: random.Random, known: Mapping[str, int], depth: int
) -> AttributeProto | None:
    kinds = onnx.defs.OpSchema.AttrType
    made = AttributeProto(name=attribute.name, type=int(attribute.type.value))
    several = [rng.choice(_INTS) for _ in range(rng.choice((0, 1, 2, 2, 4, 4, 8)))]
    if attribute.name in ("perm", "axes", "axis", "pads", "strides", "kernel_shape", "dilations"):
        several = [rng.choice((0, 1, 1, 1, 2, 3, -1)) for _ in several]
    match attribute.type:
        case kinds.INT:
            made.i = rng.choice((*_INTS, *_TYPES.values()))
        case kinds.INTS:
            made.ints.extend(several)
        case kinds.FLOAT:
            made.f = rng.choice(_FLOATS)
        case kinds.FLOATS:
            made.floats.extend(rng.choice(_FLOATS) for _ in several)
        case kinds.STRING:
            made.s = rng.choice(_TEXTS).encode()
        case kinds.STRINGS:
            made.strings.extend(rng.choice(_TEXTS).encode() for _ in several)
        case kinds.TENSOR:
            made.t.CopyFrom(_tensor(rng))
        case kinds.GRAPH:
            made.g.CopyFrom(_subgraph(model, rng, known, depth + 1))
        case _:
            return None
    return made


def _subgraph(
    model: ModelProto, rng: random.Random, outer: Mapping[str, int], depth: int
) -> GraphProto:
    graph = GraphProto(name=f"s{depth}")
    for place in range(rng.choice((0, 0, 1, 2, 3, 4))):
        kind = rng.choice((TensorProto.INT64, TensorProto.BOOL, *_COMMON))
        shape = () if place < 2 else _shape(rng)
        name = f"s{depth}i{place}{rng.randrange(100)}"
        graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    for _ in range(rng.choice((0, 1, 2)) if depth < _DEEPEST else 0):
        _add_node(graph, model, rng, outer, depth)
    _name_results(graph, rng, list(outer))
    return graph


def _name_results(graph: GraphProto, rng: random.Random, outer: Sequence[str] = ()) -> None:
    """Makes the last values the results of a graph, with or without their types."""
    del graph.output[:]
    own = [name for node in graph.node[-2:] for name in node.output]
    names = own or [each.name for each in graph.input] or list(outer[-2:])
    for name in dict.fromkeys(names):
        if rng.random() < 0.8:
            graph.output.append(onnx.ValueInfoProto(name=name))
        else:
            kind = rng.choice(_COMMON)
            graph.output.append(helper.make_tensor_value_info(name, kind, _shape(rng)))


def _function(model: ModelProto, rng: random.Random) -> None:
    """A function of one or two operators, which may call others or itself."""
    made = model.functions.add(domain="local", name=f"F{len(model.functions)}")
    made.opset_import.extend(model.opset_import)
    made.input.append("a")
    inner = GraphProto()
    for _ in range(rng.choice((1, 2))):
        _add_node(inner, model, rng, {"a": TensorProto.FLOAT}, 1)
    for node in inner.node:
        if node.attribute and rng.random() < 0.3:
            made.attribute.append("q")
            node.attribute[0].ref_attr_name = "q"
    made.node.extend(inner.node)
    made.output.extend(inner.node[-1].output[:1])


def _statement(model: ModelProto, rng: random.Random) -> None:
    """A statement of a value's type and shape, which need not be true."""
    names = [name for node in model.graph.node for name in node.output]
    if names:
        made = helper.make_tensor_value_info(rng.choice(names), rng.choice(_COMMON), _shape(rng))
        model.graph.value_info.append(made)


def _sparse(model: ModelProto, rng: random.Random) -> None:
    made = model.graph.sparse_initializer.add(dims=[rng.choice(_INTS) for _ in range(2)])
    made.values.CopyFrom(_tensor(rng, f"p{len(model.graph.sparse_initializer)}"))
    made.indices.CopyFrom(_tensor(rng, "pi"))


_PARTS = (_node, _input, _weight, _function, _statement, _sparse)
_CHANCES = (75, 5, 8, 4, 6, 2)
