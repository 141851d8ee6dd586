"""Sequences and optionals whose contents are known, and layers on tensors that do the same.

Exporters write ``chunk`` as a ``SplitToSequence`` and one ``SequenceAt`` for each part. If
constants decide which tensors a sequence holds, the former is a ``Split`` and the latter do
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

import numpy as np

from dlbricks_core.errors import WRONG_SIZES, ModelError
from dlbricks_core.ir import Array, Layer, TensorSpec

_MOST_PARTS = 4096
"""Maximum tensors in a sequence; a longer one is left to the runtime."""


@dataclass(frozen=True)
class Lowered:
    """Layers on tensors that do the same as a layer on sequences or optionals.

    Attributes:
        layers: Layers of the canonical opset; none if only names change.
        constants: New constants by name.
    """

    layers: tuple[Layer, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)


class Sequences:
    """The sequences and optionals of a model whose contents are known.

    Args:
        tensors: Specifications of the tensors so far. Results that stay unknown but have a
            certain shape are added.
        values: Known values of these tensors.
        new_name: Function that makes a unique name.
    """

    def __init__(
        self,
        tensors: MutableMapping[str, TensorSpec],
        values: Mapping[str, Array],
        new_name: Callable[[str], str],
    ) -> None:
        self._tensors = tensors
        self._values = values
        self._new_name = new_name
        #: Tensors of a sequence, by its name.
        self._parts: dict[str, tuple[str, ...]] = {}
        #: Tensor in an optional, by the optional's name; empty for an empty optional.
        self._contents: dict[str, str] = {}

    def lowered(self, layer: Layer) -> Lowered | None:
        """Layers that do the same; ``None`` if constants do not decide, or for other operators.

        Raises:
            ModelError: If the layer reads a position that the sequence does not have.
        """
        rule = None if layer.domain else _RULES.get(layer.op)
        return rule(self, layer) if rule else None

    def _split(self, layer: Layer) -> Lowered | None:
        data, (result,) = layer.inputs[0], layer.outputs
        spec = self._tensors[data]
        if not spec.is_static or not spec.rank:
            return None
        axis = _integer(layer, "axis", 0) % spec.rank
        sizes = self._sizes(layer, spec.sizes[axis])
        if not sizes or len(sizes) > _MOST_PARTS:
            return None
        names = [self._new_name(f"{result}.{i}") for i in range(len(sizes))]
        given = self._new_name(f"{result}.sizes")
        constants = {given: np.array(sizes, dtype=np.int64)}
        self._parts[result] = tuple(names)
        if _has(layer, 1) or _integer(layer, "keepdims", 1):
            split = Layer("Split", (data, given), tuple(names), {"axis": axis}, name=layer.name)
            return Lowered((split,), constants)
        kept = [self._new_name(f"{name}.kept") for name in names]
        axes = self._new_name(f"{result}.axes")
        constants[axes] = np.array([axis], dtype=np.int64)
        split = Layer("Split", (data, given), tuple(kept), {"axis": axis}, name=layer.name)
        squeezes = (
            Layer("Squeeze", (before, axes), (after,), name=layer.name)
            for before, after in zip(kept, names, strict=True)
        )
        return Lowered((split, *squeezes), constants)

    def _sizes(self, layer: Layer, total: int) -> list[int]:
        """Sizes of the parts along the axis; empty if they are not known."""
        if not _has(layer, 1):
            return [1] * min(total, _MOST_PARTS + 1)
        given = self._values.get(layer.inputs[1])
        if given is None:
            return []
        if given.ndim:
            sizes = [int(size) for size in given]
            if min(sizes, default=0) < 0 or sum(sizes) != total:
                raise ModelError(
                    f"{layer.op} does not fit its inputs: parts of {total} that are "
                    f"{sum(sizes)} together",
                    hint=WRONG_SIZES,
                )
            return sizes
        size = int(given)
        if size < 1 or total // size > _MOST_PARTS:
            return []
        return [min(size, total - start) for start in range(0, total, size)]

    def _construct(self, layer: Layer) -> Lowered:
        self._parts[layer.outputs[0]] = layer.inputs
        return Lowered()

    def _at(self, layer: Layer) -> Lowered | None:
        parts, (result,) = self._parts.get(layer.inputs[0]), layer.outputs
        if parts is None:
            return None
        position = self._position(layer, 1, len(parts))
        if position is not None:
            return Lowered((Layer("Identity", (parts[position],), (result,)),))
        specs = {self._tensors[name] for name in parts}
        if len(specs) == 1:  # whichever it is
            self._tensors[result] = specs.pop()
        return None

    def _insert(self, layer: Layer) -> Lowered | None:
        parts = self._parts.get(layer.inputs[0])
        if parts is None:
            return None
        end = len(parts)
        position = self._position(layer, 2, end + 1, shift=end) if _has(layer, 2) else end
        if position is None:
            return None
        self._parts[layer.outputs[0]] = (*parts[:position], layer.inputs[1], *parts[position:])
        return Lowered()

    def _erase(self, layer: Layer) -> Lowered | None:
        parts = self._parts.get(layer.inputs[0])
        if parts is None:
            return None
        last = len(parts) - 1
        position = self._position(layer, 1, len(parts)) if _has(layer, 1) else last
        if position is None:
            return None
        self._parts[layer.outputs[0]] = (*parts[:position], *parts[position + 1 :])
        return Lowered()

    def _position(self, layer: Layer, at: int, count: int, shift: int | None = None) -> int | None:
        """Position in a sequence that an input gives, counted from 0; ``None`` if it is not known.

        Args:
            layer: Layer with the input.
            at: Position of the input.
            count: Number of positions in the sequence.
            shift: Position from which negative numbers count; the end by default.
        """
        value = self._values.get(layer.inputs[at])
        if value is None or value.size != 1:
            return None
        given = int(value.item())
        position = given + (count if shift is None else shift) if given < 0 else given
        if not 0 <= position < count:
            raise ModelError(
                f"{layer.op} takes position {given} of a sequence with {count} of them",
                hint="The file may not be a valid ONNX model; try onnx.checker on it.",
            )
        return position

    def _length(self, layer: Layer) -> Lowered | None:
        parts = self._parts.get(layer.inputs[0])
        if parts is None:
            return None
        return Lowered(constants={layer.outputs[0]: np.array(len(parts), dtype=np.int64)})

    def _concat(self, layer: Layer) -> Lowered | None:
        parts, (result,) = self._parts.get(layer.inputs[0]), layer.outputs
        if not parts or not all(self._tensors[name].is_static for name in parts):
            return None
        axis = _integer(layer, "axis", 0)
        if not _integer(layer, "new_axis", 0):
            concat = Layer("Concat", parts, (result,), {"axis": axis}, name=layer.name)
            return Lowered((concat,))
        axis %= self._tensors[parts[0]].rank + 1
        axes = self._new_name(f"{result}.axes")
        names = tuple(self._new_name(f"{result}.{i}") for i in range(len(parts)))
        unsqueezes = (
            Layer("Unsqueeze", (part, axes), (name,), name=layer.name)
            for part, name in zip(parts, names, strict=True)
        )
        concat = Layer("Concat", names, (result,), {"axis": axis}, name=layer.name)
        return Lowered((*unsqueezes, concat), {axes: np.array([axis], dtype=np.int64)})

    def _optional(self, layer: Layer) -> Lowered:
        self._contents[layer.outputs[0]] = "".join(layer.inputs[:1])
        return Lowered()

    def _element(self, layer: Layer) -> Lowered | None:
        source, (result,) = layer.inputs[0], layer.outputs
        held = self._contents.get(source, source)
        if held in self._parts:
            self._parts[result] = self._parts[held]
            return Lowered()
        if not held or self._tensors[held].dtype == "undefined":
            return None
        return Lowered((Layer("Identity", (held,), (result,)),))

    def _has_element(self, layer: Layer) -> Lowered | None:
        source = "".join(layer.inputs[:1])
        held = self._contents.get(source, source)
        known = not held or held in self._parts or self._tensors[held].dtype != "undefined"
        return Lowered(constants={layer.outputs[0]: np.array(bool(held))}) if known else None


def _has(layer: Layer, position: int) -> bool:
    """Whether an optional input is there."""
    return position < len(layer.inputs) and bool(layer.inputs[position])


def _integer(layer: Layer, name: str, default: int) -> int:
    value = layer.attributes.get(name, default)
    assert isinstance(value, int)
    return value


#: Operator -> function that replaces a layer of it by layers on tensors.
_RULES: Mapping[str, Callable[[Sequences, Layer], Lowered | None]] = {
    "ConcatFromSequence": Sequences._concat,
    "Optional": Sequences._optional,
    "OptionalGetElement": Sequences._element,
    "OptionalHasElement": Sequences._has_element,
    "SequenceAt": Sequences._at,
    "SequenceConstruct": Sequences._construct,
    "SequenceEmpty": Sequences._construct,
    "SequenceErase": Sequences._erase,
    "SequenceInsert": Sequences._insert,
    "SequenceLength": Sequences._length,
    "SplitToSequence": Sequences._split,
}
