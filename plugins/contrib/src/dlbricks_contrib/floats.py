"""Conversion of models to a floating-point type of their own: float16, bfloat16 or float32.

As exporters do, a layer whose operator lacks the type in ONNX keeps float32, with a Cast in front
of it and behind it. Integers, truth values and float64 stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx.defs

from dlbricks_core.ir import (
    CANONICAL_OPSET,
    Array,
    CanonicalModel,
    Layer,
    TensorSpec,
    TensorValue,
    numpy_dtype,
)
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.schemas import defaults, definition

FLOATS = frozenset({"bfloat16", "float16", "float32"})
"""Types that are converted into one another."""

_WIDE = "float32"
"""Type of layers whose operator lacks the requested type."""


def to_float(model: CanonicalModel, dtype: str) -> CanonicalModel:
    """The model with all of its :data:`FLOATS` in one type, as far as its operators allow."""
    return _Draft(model, dtype).finished()


class _Draft:
    """The converted model as far as it is written.

    Each tensor of the model exists in one type under its own name, and in a second type, under
    another name, only if a layer reads it in that type.
    """

    def __init__(self, model: CanonicalModel, dtype: str) -> None:
        self._model = model
        self._dtype = dtype
        self._layers: list[Layer] = []
        self._tensors: dict[str, TensorSpec] = {}
        self._weights: set[str] = set()
        self._constants: dict[str, Array] = {}
        self._held: dict[str, dict[str, str]] = {}  # by name and type
        ends = {name: self._wanted(name) for name in (*model.inputs, *model.outputs)}
        # Subgraphs, which stay as they are, read these by their names.
        captured = {name for layer in model.layers for name in layer.captures}
        self._fixed = ends | {name: model.tensors[name].dtype for name in captured}

    def finished(self) -> CanonicalModel:
        """The whole model, converted."""
        for name in self._model.inputs:
            self._place(name, name, self._fixed[name])
        for name in self._fixed:
            if name in self._model.weights:
                self._place_weight(name, self._fixed[name])
        for layer in self._model.layers:
            self._add(layer)
        return replace(
            self._model,
            layers=tuple(self._layers),
            tensors=self._tensors,
            weights=frozenset(self._weights),
            constants=self._constants,
        )

    def _wanted(self, name: str) -> str:
        """Type that a tensor should have."""
        own = self._model.tensors[name].dtype
        return self._dtype if own in FLOATS else own

    def _allowed(self, name: str, types: Types) -> str:
        """Type of a tensor for a layer that allows some."""
        own = self._model.tensors[name].dtype
        if own not in FLOATS:
            return own
        return next((each for each in (self._dtype, _WIDE) if each in types), own)

    def _add(self, layer: Layer) -> None:
        definition = None if layer.opaque else element_types(layer.op, layer.domain)
        if definition is None:  # its other types are unknown
            self._write(layer, [self._own(n) for n in layer.inputs], map(self._own, layer.outputs))
            return
        reads = [
            self._allowed(name, definition.inputs(at)) if name else ""
            for at, name in enumerate(layer.inputs)
        ]
        writes = [
            self._result(layer, at, definition.outputs(at), follows=definition.follows(at))
            for at in range(len(layer.outputs))
        ]
        if layer.op == "Cast" and reads == writes:
            self._rename(layer.inputs[0], layer.outputs[0], reads[0])
        else:
            self._write(_quantized(_choosing(layer, writes), reads, writes), reads, writes)

    def _own(self, name: str) -> str:
        return self._model.tensors[name].dtype if name else ""

    def _result(self, layer: Layer, position: int, types: Types, *, follows: bool) -> str:
        """Type of a result; one that neither an input nor an attribute decides stays as it is."""
        name = layer.outputs[position]
        decided = follows or operator(layer.qualified_op).typed_by
        return self._allowed(name, types) if name and decided else self._own(name)

    def _write(self, layer: Layer, reads: Sequence[str], writes: Any) -> None:
        """Adds a layer that reads and writes tensors in these types."""
        inputs = tuple(
            self._read(name, dtype) if name else ""
            for name, dtype in zip(layer.inputs, reads, strict=True)
        )
        names = [
            (name, self._under(name, dtype), dtype)
            for name, dtype in zip(layer.outputs, writes, strict=True)
        ]
        outputs = tuple(under for _, under, _ in names)
        self._layers.append(replace(layer, inputs=inputs, outputs=outputs))
        for name, under, dtype in names:
            if name:
                self._place(name, under, dtype)
        for name, under, _ in names:
            if under != name:
                self._cast(name, self._fixed[name], under, name)

    def _under(self, name: str, dtype: str) -> str:
        """Name for a result: its own, unless that is fixed to another type."""
        return name if self._fixed.get(name, dtype) == dtype else self._fresh(name, dtype)

    def _fresh(self, name: str, dtype: str) -> str:
        found = f"{name}.{dtype}"
        while found in self._tensors or found in self._model.tensors:
            found += "_"
        return found

    def _place(self, name: str, under: str, dtype: str) -> None:
        """Notes that a tensor of the model is there in a type, under a name."""
        self._tensors[under] = replace(self._model.tensors[name], dtype=dtype)
        self._held.setdefault(name, {})[dtype] = under

    def _place_weight(self, name: str, dtype: str) -> str:
        under = self._fresh(name, dtype) if name in self._tensors else name
        self._place(name, under, dtype)
        self._weights.add(under)
        if name in self._model.constants:
            self._constants[under] = rounded(self._model.constants[name], dtype)
        return under

    def _read(self, name: str, dtype: str) -> str:
        """Name under which a layer finds a tensor in a type; a Cast is added where it needs one."""
        held = self._held.get(name, {})
        if dtype in held:
            return held[dtype]
        if name in self._model.weights:
            return self._place_weight(name, dtype)
        under = self._fresh(name, dtype)
        self._cast(name, dtype, next(iter(held.values())), under)
        return under

    def _cast(self, name: str, dtype: str, source: str, under: str) -> None:
        attributes = {**defaults("Cast"), "to": DTYPE_NUMBERS[dtype]}
        self._layers.append(Layer("Cast", (source,), (under,), attributes))
        self._place(name, under, dtype)

    def _rename(self, source: str, name: str, dtype: str) -> None:
        """Notes that a tensor is another one, of which it was a conversion."""
        held = self._read(source, dtype)
        if name not in self._fixed:
            self._held[name] = {dtype: held}
            return
        self._layers.append(Layer("Identity", (held,), (name,)))
        self._place(name, name, dtype)


def _choosing(layer: Layer, writes: Sequence[str]) -> Layer:
    """The layer with the attribute that says which type its result has."""
    attribute = operator(layer.qualified_op).typed_by
    if not attribute or not writes or writes[0] not in FLOATS:
        return layer
    value: Any = DTYPE_NUMBERS[writes[0]]
    if layer.op == "ConstantOfShape":
        value = _converted(layer.attributes[attribute], writes[0])
    return replace(layer, attributes={**layer.attributes, attribute: value})


def _quantized(layer: Layer, reads: Sequence[str], writes: Sequence[str]) -> Layer:
    """The layer with the types that attributes name beside that of its scale, where they differ."""
    if layer.op not in ("DequantizeLinear", "QuantizeLinear"):
        return layer
    types = {"output_dtype": writes[0], "precision": reads[1]}
    given = {
        name: DTYPE_NUMBERS[types[name]] if name in types else value
        for name, value in layer.attributes.items()
        if types.get(name) != reads[1]
    }
    if layer.op == "DequantizeLinear" and writes[0] != reads[1]:
        given["output_dtype"] = DTYPE_NUMBERS[writes[0]]
    return replace(layer, attributes=given)


def _converted(value: Any, dtype: str) -> TensorValue:
    array = np.frombuffer(value.data, numpy_dtype(value.dtype))
    return TensorValue(dtype, value.shape, rounded(array, dtype).tobytes())


def rounded(values: Array, dtype: str) -> Array:
    """Known values in a shorter type.

    Values beyond the type's range are clamped to its ends: a mask of -3.4e38 still hides positions,
    and an epsilon still keeps a divisor from zero.
    """
    kind = numpy_dtype(dtype)
    if values.dtype == kind or values.dtype.kind in "iub":
        return values
    limits: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    most, least = float(limits.max), float(limits.smallest_normal)
    wide = values.astype(np.float64)
    near = np.where(np.isfinite(wide), np.clip(wide, -most, most), wide)
    small = (near != 0) & (np.abs(near) < least)
    return np.where(small, np.copysign(least, near), near).astype(kind)


# Element types that operators take and give.

Types = frozenset[str]
"""Element types by their names in the IR."""


@dataclass(frozen=True)
class ElementTypes:
    """Element types that an operator takes and gives.

    Attributes:
        read: Types of each input.
        written: Types of each output.
        tied: Whether an input decides the type of each output.
    """

    read: tuple[Types, ...]
    written: tuple[Types, ...]
    tied: tuple[bool, ...]

    def inputs(self, position: int) -> Types:
        """Types of an input; the last input of an operator may represent any number of inputs."""
        return _at(self.read, position)

    def outputs(self, position: int) -> Types:
        """Types of an output."""
        return _at(self.written, position)

    def follows(self, position: int) -> bool:
        """Whether an output has the type of an input."""
        return bool(self.tied) and self.tied[min(position, len(self.tied) - 1)]


def _at(types: tuple[Types, ...], position: int) -> Types:
    return types[min(position, len(types) - 1)] if types else frozenset()


@cache
def element_types(op: str, domain: str) -> ElementTypes | None:
    """Element types of an operator; ``None`` if it has no definition.

    Layers in canonical form follow the canonical operator set. Later ones only allow more types:
    one that frameworks read by now tells which.
    """
    own, newest = definition(op, domain, CANONICAL_OPSET), definition(op, domain, _TYPES_OPSET)
    if own is None or newest is None:
        return None
    named = {formal.type_str for formal in own.inputs}
    return ElementTypes(
        read=tuple(map(_types, newest.inputs)),
        written=tuple(map(_types, newest.outputs)),
        tied=tuple(formal.type_str in named for formal in own.outputs),
    )


_TYPES_OPSET = 24
"""Operator set of ONNX 1.19. From 22 on, convolutions and recurrent layers have bfloat16."""


def _types(formal: onnx.defs.OpSchema.FormalParameter) -> Types:
    inner = (text.removeprefix("tensor(").removesuffix(")") for text in formal.types)
    return frozenset({"float": "float32", "double": "float64"}.get(each, each) for each in inner)
