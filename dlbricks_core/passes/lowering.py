"""Knowledge about the part of a model that has been lowered; it grows layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from dlbricks_core.errors import Border, ModelError, shown
from dlbricks_core.ir import CANONICAL_OPSET, Array, CanonicalModel, Layer, RawModel, TensorSpec
from dlbricks_core.ir.model import Folded
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.pipeline import Pass
from dlbricks_core.passes.sequences import Sequences
from dlbricks_core.passes.shapes import UNKNOWN
from dlbricks_core.wording import settings

_KNOWLEDGE = (
    "layers", "tensors", "weights", "values", "declared", "aliases", "renamed", "captured",
    "unshaped", "inlined", "kept_for_captures", "loop_steps",
)  # fmt: skip
"""Attributes of a lowering that grow layer by layer."""

Step = Pass[[Layer, "Lowering"], Layer | None]
"""Step that returns the layer for the next step; ``None`` if it has dealt with the layer itself."""


class Lowering:
    """A model on its way into canonical form, layer by layer from the inputs to the outputs.

    Args:
        model: With static inputs.
        to_form: Steps that every layer of the model goes through, up to its canonical form.
        from_form: Steps that every layer in canonical form goes through.

    Attributes:
        model: The raw model.
        layers: Layers of the canonical model so far.
        tensors: Specifications so far.
        weights: Names of weights so far.
        values: Known values of weights.
        declared: Specifications from the producer, for tensors that inference finds none for.
        aliases: Results of Identity layers that are gone, by the tensor that they are the same as.
        renamed: New names of tensors that such a layer made an output.
        fixed: Tensors whose names somebody outside of the layers uses.
        captured: Tensors that subgraphs read.
        sequences: Sequences and optionals whose contents are known.
        unshaped: First tensor without a known shape that a result of an opaque layer follows from.
        inlined: Whether a subgraph became layers of the model.
        kept_for_captures: Whether an Identity is kept for a subgraph that reads its result.
        loop_steps: Steps of loops that became layers of the model.
        folded: Layers whose results became weights without known values.
        computed: Names of these results.
    """

    def __init__(self, model: RawModel, to_form: Sequence[Step], from_form: Sequence[Step]) -> None:
        self.model = model
        self.layers: list[Layer] = []
        self.tensors: dict[str, TensorSpec] = {
            name: model.tensors[name] for name in (*model.inputs, *model.weights)
        }
        self.weights = set(model.weights)
        self.values: dict[str, Array] = dict(model.constants)
        self.declared: dict[str, TensorSpec] = dict(model.tensors)
        self.aliases: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        self.fixed = {*model.inputs, *model.outputs, *model.weights}
        self.captured = {name for layer in model.layers for name in layer.captures}
        self.sequences = Sequences(self.tensors, self.values, self.new_name)
        self.unshaped: dict[str, str] = {}
        self.inlined = False
        self.kept_for_captures = False
        self.loop_steps = 0
        self.folded: list[Layer] = []
        self.computed: set[str] = set()
        self._to_form = tuple(step.run for step in to_form)
        self._from_form = tuple(step.run for step in from_form)

    def finish(self) -> CanonicalModel:
        """The canonical model."""
        for name in self.model.outputs:
            self.spec(name)
        return self.model.as_canonical(
            layers=tuple(map(self._renamed, self.layers)),
            tensors={self.renamed.get(name, name): spec for name, spec in self.tensors.items()},
            weights=frozenset(self.weights),
            constants=self.values,
            opsets={**self.model.opsets, "": CANONICAL_OPSET},
            folded=self._folded(),
            loop_steps=self.loop_steps,
        )

    def _renamed(self, layer: Layer) -> Layer:
        """The layer with the names of outputs in the place of names that they replace."""
        names = self.renamed
        if names.keys().isdisjoint((*layer.inputs, *layer.outputs)):
            return layer
        return layer.renamed(lambda name: names.get(name, name))

    def _folded(self) -> Folded | None:
        if not self.folded:
            return None
        made = {name for layer in self.folded for name in layer.outputs}
        names = {name for layer in self.folded for name in (*layer.reads, *layer.outputs) if name}
        return Folded(
            layers=tuple(self.folded),
            tensors={name: self.tensors[name] for name in sorted(names)},
            weights=frozenset(names - made),
            constants={name: self.values[name] for name in sorted(names & self.values.keys())},
        )

    def take(self, layer: Layer) -> None:
        """Lowers the next layer of the model, or of a branch that became part of it.

        Raises:
            ModelError: If it does not fit its inputs or its definition; names it.
        """
        name = layer.name or next(filter(None, layer.outputs), "")
        with Border("layer", name):
            self.proceed(layer)

    def proceed(self, layer: Layer) -> None:
        """Lowers a layer that represents a layer of the model, or a part of it."""
        self._through(self._to_form, layer)

    def place(self, layer: Layer) -> None:
        """Adds a layer in canonical form, unless it is not needed."""
        placed = self._through(self._from_form, layer)
        if placed is not None:
            self.layers.append(placed)

    def _through(
        self, steps: Sequence[Callable[[Layer, Lowering], Layer | None]], layer: Layer
    ) -> Layer | None:
        current: Layer | None = layer
        for step in steps:
            if current is None:
                break
            current = step(current, self)
        return current

    def state(self) -> tuple[Any, ...]:
        """Knowledge so far, for :meth:`restore`."""
        return tuple(copy(getattr(self, name)) for name in _KNOWLEDGE)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Discards layers that were lowered since a state; names of tensors stay reserved."""
        for name, value in zip(_KNOWLEDGE, state, strict=True):
            held = getattr(self, name)
            if isinstance(held, int):
                setattr(self, name, value)
                continue
            held.clear()
            held.extend(value) if isinstance(held, list) else held.update(value)

    def spec(self, name: str) -> TensorSpec:
        """Specification of a tensor that an earlier layer computes.

        Raises:
            ModelError: If the tensor was dropped, as are results that only training needs.
        """
        if name not in self.tensors:
            raise ModelError(
                f"no layer gives {shown(name)} when the model is not trained",
                hint="Export the model for inference.",
            )
        return self.tensors[name]

    def opset_of(self, layer: Layer) -> int:
        """Version of its domain's operator set that a layer follows."""
        return layer.opset or self.model.opsets.get(layer.domain, 1)

    def new_name(self, wanted: str) -> str:
        """A name that no other tensor has, as near to the wanted one as possible."""
        name, number = wanted, 1
        while name in self.tensors or name in self.declared:
            number += 1
            name = f"{wanted}.{number}"
        return name

    def add_weight(self, name: str, value: Array | None) -> None:
        """Makes a tensor a weight, with its value where that is known."""
        self.weights.add(name)
        if value is not None:
            self.values[name] = value

    def add_opaque(self, layer: Layer, reason: str, origin: str = "") -> None:
        """Adds a layer as an opaque layer.

        Args:
            layer: The layer.
            reason: Reason, for people.
            origin: First tensor without a known shape that the layer's results follow from; by
                default each of them is one.
        """
        for name in layer.outputs:
            if name:
                spec = self.tensors.get(name, UNKNOWN)
                declared = self.declared.get(name, UNKNOWN)
                self.tensors[name] = spec if spec.is_static else declared
                self.unshaped[name] = origin or name
        self.layers.append(replace(layer, opaque=reason))


# Inputs of a model that decide shapes or branches, and so have to have a value.

_MOST_NUMBERS = 16
"""Maximum elements of an input for which users are asked to write values."""

_POSITIONS: Mapping[str, tuple[int, ...]] = {
    "If": (0,),
    "Loop": (0, 1),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "SplitToSequence": (1,),
}
"""Positions of the inputs that decide how operators work that are gone in canonical form."""


def decided_by(layer: Layer, lowering: Lowering) -> str:
    """End of a reason that names the inputs whose values decide how a layer works.

    Returns:
        An empty text if no input decides, or if a deciding input is too large to be written.
    """
    positions = _POSITIONS.get(layer.op, ()) or operator(layer.qualified_op).parameters
    asked = {name for at, name in enumerate(layer.inputs) if at in positions}
    deciding = _sources(asked, lowering)
    specs = {name: lowering.tensors[name] for name in deciding}
    if not specs or not all(_is_short(spec, name in asked) for name, spec in specs.items()):
        return ""
    numbers = {
        name: ["N"] * spec.elements if spec.elements > 1 else "N" for name, spec in specs.items()
    }
    truths = all(spec.dtype == "bool" for spec in specs.values())
    which = " (N: 0 for no, 1 for yes)" if truths else ""
    return (
        f", decided by the input {' and '.join(deciding)}: give {settings(values=numbers)}{which}"
    )


def _is_short(spec: TensorSpec, is_read: bool) -> bool:
    """Whether users can write an input's value.

    Several floats are data, unless a layer reads them as its parameters.
    """
    if not spec.is_static or spec.elements > _MOST_NUMBERS:
        return False
    return spec.elements == 1 or is_read or not spec.dtype.startswith(("float", "bfloat"))


def _sources(asked: Iterable[str], lowering: Lowering) -> list[str]:
    """Inputs of the model that tensors without a known value follow from."""
    made = {name: each for each in lowering.layers for name in each.outputs}
    seen: set[str] = set()
    left = [name for name in asked if name]
    while left:
        name = left.pop()
        if name not in seen and name not in lowering.values:
            seen.add(name)
            left += made[name].reads if name in made else ()
    return [name for name in lowering.model.inputs if name in seen]
