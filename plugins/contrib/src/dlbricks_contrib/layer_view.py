"""View of one layer of a model, for backends that translate layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array, CanonicalModel, Layer, TensorSpec
from dlbricks_core.operators.compound import GATE_ACTIVATIONS
from dlbricks_core.passes.schemas import defaults, input_name, late_defaults

Shape = tuple[int, ...]

#: Attributes that follow from shapes and element types, or that change no result of inference.
_IMMATERIAL = frozenset(
    {
        "allowzero", "ceil_mode", "hidden_size", "kernel_shape", "momentum", "noop_with_empty_axes",
        "num_outputs", "output_dtype", "output_padding", "output_shape", "precision", "saturate",
        "softmax_precision", "sorted", "spatial", "stash_type", "storage_order", "to",
        "training_mode",
    }
)  # fmt: skip


def halves(pads: Sequence[int]) -> tuple[Shape, Shape]:
    """Begins and ends of ONNX's pads, which list all begins before all ends."""
    half = len(pads) // 2
    return tuple(pads[:half]), tuple(pads[half:])


@contextmanager
def naming(layer: Layer) -> Iterator[None]:
    """Puts a layer's operator in front of the reason why it is unsupported.

    Raises:
        UnsupportedError: If the context raises one; the message begins with the operator.
    """
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedError(f"{layer.qualified_op}: {error.message}", error.hint) from error


class LayerView:
    """View of a layer with the queries that its translation needs.

    A backend derives the context of its translations from this class and adds facts of its
    framework. Positions count from 0, in the order of ``layer.inputs`` and ``layer.outputs``.

    Args:
        model: Model in canonical form that the layer is part of.
        layer: The layer.

    Examples:
        >>> def relu(view: LayerView) -> str:
        ...     return f"relu({view.layer.inputs[0]}: {view.dtype()} {view.shape()})"
    """

    def __init__(self, model: CanonicalModel, layer: Layer) -> None:
        self.model = model
        self.layer = layer
        self._read: set[str] = set()

    @property
    def op(self) -> str:
        """Operator type without its domain, ``"Conv"``."""
        return self.layer.op

    # -- inputs and outputs

    @property
    def count(self) -> int:
        """Number of input positions, including omitted inputs."""
        return len(self.layer.inputs)

    def has(self, position: int) -> bool:
        """Whether the layer has this input."""
        return position < self.count and bool(self.layer.inputs[position])

    def wants(self, position: int) -> bool:
        """Whether another layer or the user reads this output."""
        return position < len(self.layer.outputs) and bool(self.layer.outputs[position])

    def spec(self, position: int = 0) -> TensorSpec:
        """Element type and shape of an input."""
        return self.model.tensors[self.layer.inputs[position]]

    def shape(self, position: int = 0) -> Shape:
        """Shape of an input."""
        return self.spec(position).sizes

    def rank(self, position: int = 0) -> int:
        """Number of axes of an input."""
        return len(self.shape(position))

    def dtype(self, position: int = 0) -> str:
        """Element type of an input, ``"float32"``."""
        return self.spec(position).dtype

    def out_spec(self, position: int = 0) -> TensorSpec:
        """Element type and shape of an output."""
        return self.model.tensors[self.layer.outputs[position]]

    def out_shape(self, position: int = 0) -> Shape:
        """Shape of an output."""
        return self.out_spec(position).sizes

    def out_dtype(self, position: int = 0) -> str:
        """Element type of an output, ``"float32"``."""
        return self.out_spec(position).dtype

    # -- values that are known before the network runs

    def is_weight(self, position: int) -> bool:
        """Whether the input is part of the model, rather than computed or fed."""
        return self.has(position) and self.layer.inputs[position] in self.model.weights

    def is_scalar_weight(self, position: int) -> bool:
        """Whether the input is a single number that is part of the model."""
        return self.is_weight(position) and math.prod(self.shape(position)) == 1

    def constant(self, position: int) -> Array | None:
        """Value of an input, or ``None`` if it is left out or not known."""
        return self.model.constants.get(self.layer.inputs[position]) if self.has(position) else None

    def known(self, position: int) -> Array:
        """Value of an input that the framework takes as a parameter, such as axes or pads.

        Raises:
            UnsupportedError: If the value is not known before the network runs.
        """
        value = self.constant(position)
        if value is None:
            name = input_name(self.op, position)
            raise UnsupportedError(f"its input {name!r} is not a constant")
        return value

    def integers(self, position: int) -> Shape:
        """Value of an input of integers, flattened.

        Raises:
            UnsupportedError: If the value is not known before the network runs.
        """
        return tuple(int(value) for value in self.known(position).ravel())

    def integer(self, position: int) -> int:
        """Value of an input that is a single integer.

        Raises:
            UnsupportedError: If the value is not known before the network runs.
        """
        return self.integers(position)[0]

    # -- attributes

    def attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute; where the layer has none, that of the operator's definition.

        Args:
            name: Name of the attribute.
            default: Value that counts if the definition has no default either.
        """
        self._read.add(name)
        if name in self.layer.attributes:
            return self.layer.attributes[name]
        return self._default(name, default)

    def ignore(self, *names: str) -> None:
        """Declares that the values of these attributes make no difference to the layer."""
        self._read.update(names)

    def unread(self) -> dict[str, Any]:
        """Attributes that were not read and whose values differ from their defaults.

        A complete translation has read every attribute that changes results.
        """
        return {
            name: value
            for name, value in self.layer.attributes.items()
            if name not in self._read and name not in _IMMATERIAL and value != self._default(name)
        }

    def _default(self, name: str, default: Any = None) -> Any:
        if self.layer.domain:
            return default
        return defaults(self.op).get(name, late_defaults(self.op).get(name, default))

    def axis(self, name: str = "axis", rank: int | None = None) -> int:
        """Axis that an attribute names, counted from the front.

        Args:
            name: Name of the attribute.
            rank: Number of axes to count in; that of the first input unless given.
        """
        return int(self.attribute(name)) % max(self.rank() if rank is None else rank, 1)

    # -- windows

    @property
    def spatial_rank(self) -> int:
        """Number of axes behind batch and channels."""
        return self.rank() - 2

    def per_axis(self, name: str, axes: int | None = None) -> Shape:
        """Attribute with one value for each spatial axis, such as strides; ones if left out.

        Args:
            name: Name of the attribute.
            axes: Number of spatial axes, if the first input does not tell.
        """
        given = self.attribute(name)
        return tuple(given or (1,) * (self.spatial_rank if axes is None else axes))

    def pads(self, axes: int | None = None) -> tuple[Shape, Shape]:
        """Padding before and after each spatial axis; zeros if left out.

        Args:
            axes: Number of spatial axes, if the first input does not tell.
        """
        given = self.attribute("pads")
        return halves(given or (0,) * 2 * (self.spatial_rank if axes is None else axes))

    # -- axes, by operator

    def permutation(self) -> Shape:
        """Axes of a Transpose's input in their new order."""
        return tuple(self.attribute("perm", tuple(reversed(range(self.rank())))))

    def all_pads(self) -> tuple[Shape, Shape]:
        """Padding of a Pad before and after each axis; negative numbers cut.

        Raises:
            UnsupportedError: If the padding is unknown before the network runs.
        """
        begins, ends = halves(self.integers(1))
        if not self.has(3):
            return begins, ends
        # The canonical form names all axes; others may not.
        axes = [axis % self.rank() for axis in self.integers(3)]
        every = range(self.rank())
        before, after = dict(zip(axes, begins, strict=True)), dict(zip(axes, ends, strict=True))
        return tuple(before.get(a, 0) for a in every), tuple(after.get(a, 0) for a in every)

    def reduced_axes(self) -> Shape:
        """Axes of a reduction, ascending; empty if the reduction returns its input unchanged.

        Raises:
            UnsupportedError: If they are not known before the network runs.
        """
        axes = self.integers(1) if self.has(1) else ()
        if not axes and not self.attribute("noop_with_empty_axes", 0):
            return tuple(range(self.rank()))
        return tuple(sorted(axis % max(self.rank(), 1) for axis in axes))

    def slices(self) -> dict[int, range]:
        """Range of elements that a Slice selects along each of its axes.

        Raises:
            UnsupportedError: If they are not known before the network runs.
        """
        starts, ends = self.integers(1), self.integers(2)
        axes = self.integers(3) if self.has(3) else tuple(range(len(starts)))
        steps = self.integers(4) if self.has(4) else (1,) * len(starts)
        taken = {}
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            size = self.shape()[axis]
            first = max(start + size if start < 0 else start, 0)
            last = end + size if end < 0 else end
            # Counting down past the first element has no end in Python.
            stop = None if step < 0 and last < 0 else max(last, 0)
            taken[axis % self.rank()] = range(size)[slice(first, stop, step)]
        return taken

    def split_sizes(self) -> Shape:
        """Sizes of the parts of a Split, including parts that are not read.

        Raises:
            UnsupportedError: If they are not known before the network runs.
        """
        axis = self.axis()
        return tuple(
            self.out_shape(i)[axis] if self.wants(i) else self.integers(1)[i]
            for i in range(len(self.layer.outputs))
        )

    # -- recurrent layers

    def activations(self) -> tuple[str, ...]:
        """Names of a recurrent layer's activation functions in lower case, for all directions."""
        self.ignore("activations")
        directions = 2 if self.attribute("direction") == "bidirectional" else 1
        # A default in the operator's definition is for two directions.
        given = self.layer.attributes.get("activations") or GATE_ACTIVATIONS[self.op] * directions
        return tuple(name.lower() for name in given)  # type: ignore[union-attr]

    def has_full_lengths(self) -> bool:
        """Whether every sequence of a recurrent layer's batch certainly has all steps."""
        if not self.has(4):
            return True
        steps = self.shape()[1 if self.attribute("layout") else 0]
        lengths = self.constant(4)
        return lengths is not None and bool((lengths == steps).all())
