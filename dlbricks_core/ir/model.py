"""Layers, and the two types of models: raw and canonical."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dlbricks_core.ir.tensors import TensorSpec
from dlbricks_core.sanitize import sanitized

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A small tensor as an attribute value; hashable."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph as an attribute value (``If``, ``Loop``, ``Scan``): its serialized protobuf."""

    proto: bytes


MOST_DENORMAL = 0.001
"""Minimum share of denormal weights of a model that counts as slowed; trained weights have none."""

Attribute = int | float | str | bytes | TensorValue | Subgraph | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator of a model.

    Attributes:
        op: ONNX operator type, ``"Conv"``.
        inputs: Tensor names by position; ``""`` for an optional input that is left out.
        outputs: Tensor names by position; ``""`` for an optional output that is left out.
        attributes: Attribute values by name.
        domain: Operator domain; ``""`` is ``ai.onnx``.
        name: The producer's name of the layer, for people to read.
        opaque: Reason why the engine cannot look inside (a subgraph, a data-dependent
            shape); empty for an ordinary layer. Opaque layers are never timed. Reports
            name them.
        captures: Tensors of the enclosing graph that the layer's subgraphs read.
        opset: Version of the operator set that the layer follows; 0 for the version of the
            model, which all layers in canonical form follow.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    domain: str = ""
    name: str = ""
    opaque: str = ""
    captures: tuple[str, ...] = ()
    opset: int = 0

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of all tensors that the layer reads, each once, in the order of first use."""
        return tuple(dict.fromkeys(filter(None, (*self.inputs, *self.captures))))

    @property
    def qualified_op(self) -> str:
        """The operator type with its domain in front, where that is not ``ai.onnx``."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    def renamed(self, name: Callable[[str], str]) -> Layer:
        """The layer with other names for the tensors that it reads and writes."""
        return replace(
            self,
            inputs=tuple(each and name(each) for each in self.inputs),
            outputs=tuple(each and name(each) for each in self.outputs),
            captures=tuple(map(name, self.captures)),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """Directed acyclic graph of layers, without the values of its weights.

    This is the common part of :class:`RawModel` and :class:`CanonicalModel`.

    Attributes:
        name: The user's name of the model.
        layers: Layers in topological order.
        inputs: Names of the tensors that the user feeds.
        outputs: Names of the tensors that the user gets.
        tensors: Specification of every tensor, weights included.
        weights: Names of the tensors that are part of the model (initializers).
        constants: Values of small, known weights: shapes, axes and the like.
            A large weight never has an entry.
        opsets: Operator set version by domain.
        source: File or collection that the model came from.
        configuration: JSON of the configuration that a language model was built from, in the fields
            of its publisher, for frameworks that build the model themselves; empty for others.
    """

    name: str
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, TensorSpec]
    weights: frozenset[str] = frozenset()
    constants: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    configuration: str = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary}>"

    @property
    def summary(self) -> str:
        """Name, number of layers, and inputs in one line, safe to print."""
        count = "1 layer" if len(self.layers) == 1 else f"{len(self.layers)} layers"
        inputs = ", ".join(f"{name}: {self.tensors[name]}" for name in self.inputs)
        return sanitized(f"{self.name}: {count}, inputs {inputs}")

    @cached_property
    def producers(self) -> Mapping[str, int]:
        """Index of the layer that produces each tensor."""
        return {out: i for i, layer in enumerate(self.layers) for out in layer.outputs if out}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[int, ...]]:
        """Indices of the layers that read each tensor, ascending, each once."""
        readers: dict[str, list[int]] = {}
        for i, layer in enumerate(self.layers):
            for name in layer.reads:
                readers.setdefault(name, []).append(i)
        return {name: tuple(indices) for name, indices in readers.items()}

    @cached_property
    def input_names(self) -> frozenset[str]:
        """The inputs as a set."""
        return frozenset(self.inputs)

    @cached_property
    def output_names(self) -> frozenset[str]:
        """The outputs as a set."""
        return frozenset(self.outputs)

    def activations(self, layer: Layer) -> tuple[str, ...]:
        """Names of the layer's inputs that are not weights, each once."""
        return tuple(n for n in layer.reads if n not in self.weights)

    def specs(self, names: Iterable[str]) -> tuple[TensorSpec | None, ...]:
        """Specification of each named tensor; ``None`` for the empty name."""
        return tuple(self.tensors[name] if name else None for name in names)

    def as_canonical(self, **changes: Any) -> CanonicalModel:
        """A canonical model that differs from this one in some attributes."""
        own = {each.name: getattr(self, each.name) for each in fields(Model)}
        return CanonicalModel(**{**own, **changes})


@dataclass(frozen=True, eq=False, repr=False)
class RawModel(Model):
    """A model as its producer wrote it; importers return raw models.

    Layers follow any opset, dimensions may be dynamic, and tensors may lack a specification
    (``TensorSpec("undefined", None)``). Only :mod:`dlbricks_core.passes` works on raw models:
    :func:`dlbricks_core.passes.normalize` turns one into a :class:`CanonicalModel`.

    Attributes:
        conditions: Conditions of the producer on the sizes of dynamic dimensions, as comparisons in
            Python's notation (``2*s0 <= 64``).
        weight_files: Names of files beside the source that hold weights.
    """

    conditions: tuple[str, ...] = ()
    weight_files: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Folded:
    """Layers that read weights alone; their results count as weights of a canonical model.

    Attributes:
        layers: The layers in topological order, in canonical form.
        tensors: Specification of every tensor that these layers read or write.
        weights: Names of the tensors that no layer writes.
        constants: Values of small, known weights.
    """

    layers: tuple[Layer, ...]
    tensors: Mapping[str, TensorSpec]
    weights: frozenset[str]
    constants: Mapping[str, np.ndarray[Any, Any]]

    def before(self, other: Folded | None) -> Folded:
        """Joins these layers with others that may read their results."""
        if other is None:
            return self
        made = {name for layer in self.layers for name in layer.outputs}
        return Folded(
            (*self.layers, *other.layers),
            {**self.tensors, **other.tensors},
            self.weights | (other.weights - made),
            {**self.constants, **other.constants},
        )


@dataclass(frozen=True, eq=False, repr=False)
class CanonicalModel(Model):
    """A model in canonical form (``docs/reference/ir.md``), the form that the engine works on.

    Every tensor has an element type and a static shape, except the results of opaque layers.
    Every layer of the domain ``ai.onnx`` follows ``CANONICAL_OPSET``, with all attributes written.

    Attributes:
        annotations: Marks that other rooms put on the model, by the name of the mark. The IR
            stores marks without a meaning of its own.
        folded: Layers that became weights, for frameworks that compute these layers in each run;
            ``None`` if there are none.
        idle_bytes: Bytes of weights that are in memory, but that no layer reads at these sizes,
            such as weights of experts that no token chooses.
        denormal_share: Share of denormal numbers among the weights in the model's file.
        loop_steps: Number of steps of the producer's loops that are written out as layers.
        weight_files: Names of files beside the source that hold weights.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    folded: Folded | None = None
    idle_bytes: int = 0
    denormal_share: float = 0.0
    loop_steps: int = 0
    weight_files: tuple[str, ...] = ()

    @property
    def is_slowed(self) -> bool:
        """Whether denormal weights in its file may slow the model; bricks have usual weights."""
        return self.denormal_share >= MOST_DENORMAL

    @cached_property
    def nbytes(self) -> Mapping[str, int]:
        """Bytes of each tensor; 0 for an opaque layer's result of unknown size."""
        sizes = {spec: spec.nbytes if spec.is_static else 0 for spec in {*self.tensors.values()}}
        return {name: sizes[spec] for name, spec in self.tensors.items()}

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all weights in memory."""
        return self._nbytes(self.weights)

    @cached_property
    def live_bytes(self) -> int:
        """Peak bytes of inputs and results, if each is freed after its last reader."""
        kept = {*self.inputs, *self.outputs}
        held = most = self._nbytes(kept)
        for index, layer in enumerate(self.layers):
            made = {name for name in layer.outputs if name}
            held += self._nbytes(made - kept)
            most = max(most, held)
            over = {
                name
                for name in made.union(self.activations(layer))
                if self.consumers.get(name, (index,))[-1] == index
            }
            held -= self._nbytes(over - kept)
        return most

    def _nbytes(self, names: Iterable[str]) -> int:
        return sum(map(self.nbytes.__getitem__, names))

    def as_raw(self) -> RawModel:
        """The model as a raw model, for a normalization with other options."""
        return RawModel(**{each.name: getattr(self, each.name) for each in fields(Model)})


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Network:
    """A canonical model with a value for every weight and every input, ready to run.

    Attributes:
        model: A model without opaque layers.
        weights: Value of every tensor in ``model.weights``.
        inputs: Value of every tensor in ``model.inputs``.
    """

    model: CanonicalModel
    weights: Mapping[str, Array]
    inputs: Mapping[str, Array]


def layer_graph(model: CanonicalModel) -> nx.DiGraph:
    """Directed graph of layer indices, with an edge from each producer to each consumer."""
    import networkx as nx  # slow to import, and few commands need it

    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(model.layers)))
    for tensor, producer in model.producers.items():
        graph.add_edges_from((producer, reader) for reader in model.consumers.get(tensor, ()))
    return graph
