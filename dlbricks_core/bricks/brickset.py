"""Deduplication: the unique bricks that a set of models consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dlbricks_core.bricks.extract import exact_numbers, extract
from dlbricks_core.bricks.signature import signature, with_cold, with_weights_reread
from dlbricks_core.bricks.split import split
from dlbricks_core.operators.operator import Traffic
from dlbricks_core.operators.table import operator

if TYPE_CHECKING:
    from dlbricks_core.bricks.split import LayerSequence
    from dlbricks_core.facts import Note
    from dlbricks_core.ir import CanonicalModel


# Caches as a layer sequence finds them: whether they hold its weights, inputs and outputs.

NEAR_BYTES = 16_000_000
"""Maximum bytes moved between two uses of a tensor for which the caches may keep the tensor.

Half of 32 MB, which is the least that the last-level cache of a server's processor has."""

_MIN_BYTES = 65_536
"""Minimum bytes of a sequence's weights, or of a tensor, for which it matters whether they are in a
cache."""

HELD_BYTES = 2**22
"""Maximum bytes of weights and live activations that a core's caches keep from run to run."""


_fitting: WeakKeyDictionary[CanonicalModel, bool] = WeakKeyDictionary()
"""Whether a core's caches keep models, for as long as these exist: a model is asked about for its
bricks and as a whole."""


def fits_in_core_cache(model: CanonicalModel) -> bool:
    """Whether a core's caches keep a model's weights and activations until its next run.

    Of a table, only the rows that a run looks up count.
    """
    if model not in _fitting:
        static = all(spec.is_static for spec in model.tensors.values())
        _fitting[model] = static and _read_bytes(model) + model.live_bytes <= HELD_BYTES
    return _fitting[model]


def _read_bytes(model: CanonicalModel) -> int:
    """Bytes of the weights that a run reads."""
    read = dict.fromkeys(model.weights, 0)
    for layer in model.layers:
        picks = operator(layer.qualified_op).traffic is Traffic.PICKED
        for place, name in enumerate(layer.reads):
            if name in read:
                rows = sum(model.nbytes[each] for each in layer.outputs if each)
                size = model.nbytes[name]
                read[name] = min(size, read[name] + rows) if picks and not place else size
    return sum(read.values())


def rereads(model: CanonicalModel, sequences: Iterable[Sequence[int]]) -> list[bool]:
    """Whether each layer sequence reads weights that the model has read shortly before.

    Steps of an unrolled recurrence, layers that share their weights, and heads that run on several
    feature maps find their weights in the caches. Other layers fetch them from memory. "Shortly"
    means that fewer bytes were moved in between than :data:`NEAR_BYTES`, or than twice the bytes
    that the sequence itself moves.

    Args:
        model: Model in canonical form; its layers in the order in which they run.
        sequences: Layer indices of each sequence, in the order in which they run.

    Returns:
        For each sequence, whether it reads most bytes of its weights again.
    """
    passed = 0
    last: dict[str, int] = {}
    found = []
    for sequence in sequences:
        read = {name for index in sequence for name in model.layers[index].reads}
        weights = {name: model.nbytes[name] for name in read & model.weights}
        written = (name for index in sequence for name in model.layers[index].outputs if name)
        own = sum(weights.values()) + sum(model.nbytes[name] for name in written)
        near = max(NEAR_BYTES, 2 * own)
        again = sum(
            size for name, size in weights.items() if name in last and passed - last[name] <= near
        )
        found.append(again >= _MIN_BYTES and 2 * again > sum(weights.values()))
        last |= dict.fromkeys(weights, passed)
        passed += own
    return found


def cold_ends(model: CanonicalModel, sequences: Iterable[Sequence[int]]) -> list[frozenset[str]]:
    """Inputs and outputs of a model that have left the caches when a layer sequence uses them.

    Before an inference, memory for its outputs and then its inputs is touched in their order. The
    layers of a decoder read their keys and values after the keys and values of many other layers,
    and after megabytes of weights. A tensor has left the caches if more than :data:`NEAR_BYTES`
    were moved since its last use.

    Args:
        model: Model in canonical form; its layers in the order in which they run.
        sequences: Layer indices of each sequence, in the order in which they run.

    Returns:
        Names of these tensors for each sequence, without small tensors.
    """
    last: dict[str, int] = {}
    before = 0
    for name in reversed((*model.outputs, *model.inputs)):
        last.setdefault(name, -before)
        before += model.nbytes[name]
    ends = {name for name in last if model.nbytes[name] >= _MIN_BYTES}
    passed, found = 0, []
    for sequence in sequences:
        layers = [model.layers[index] for index in sequence]
        used = {name for layer in layers for name in (*layer.reads, *layer.outputs) if name}
        found.append(frozenset(n for n in used & ends if passed - last[n] > NEAR_BYTES))
        passed += sum(model.nbytes[name] for name in used)
        last |= dict.fromkeys(used & ends, passed)
    return found


class Brick:
    """A unique layer sequence.

    Args:
        signature: Identity of the work that the sequence does.
        model: The sequence as a model of its own, with static shapes and no values of weights.

    Attributes:
        signature: As the argument.
    """

    def __init__(self, signature: str, model: CanonicalModel) -> None:
        self.signature = signature
        self._layers = model.layers
        self._extract: Callable[[], CanonicalModel] = lambda: model

    @classmethod
    def within(
        cls, model: CanonicalModel, sequence: LayerSequence, signature: str, name: str = ""
    ) -> Brick:
        """A sequence of a model's layers, extracted when it is first needed.

        Args:
            model: The model.
            sequence: Indices of the layers.
            signature: The sequence's signature.
            name: Name of the extracted model if it is to keep all numbers exactly.
        """
        brick = cls(signature, model)
        brick._layers = tuple(model.layers[index] for index in sequence)
        brick._extract = partial(extract, model, sequence, name or signature, exact=bool(name))
        return brick

    @cached_property
    def model(self) -> CanonicalModel:
        """The sequence as a model of its own, with static shapes and no values of weights."""
        return self._extract()

    def __reduce__(self) -> tuple[type[Brick], tuple[str, CanonicalModel]]:
        """Pickles the sequence without the model that it is cut from."""
        return Brick, (self.signature, self.model)

    @property
    def operators(self) -> tuple[str, ...]:
        """Operator types in the order in which they run."""
        return tuple(layer.qualified_op for layer in self._layers)

    @property
    def opaque(self) -> str:
        """Why the brick cannot be timed; empty for an ordinary brick."""
        return next((layer.opaque for layer in self._layers if layer.opaque), "")


@dataclass(frozen=True)
class Occurrence:
    """A place in a model where a brick stands.

    Attributes:
        signature: Signature of the brick.
        layers: Indices of the layers in the graph that was cut.
    """

    signature: str
    layers: LayerSequence


@dataclass(frozen=True)
class CutModel:
    """A model and the bricks that it consists of, in order.

    Attributes:
        model: The model in canonical form.
        occurrences: Occurrences of bricks, in the order in which they run.
        graph: The graph that was cut: the model itself, or the graph into which a backend rewrites
            it.
        notes: Notes on how the model was cut.
    """

    model: CanonicalModel
    occurrences: tuple[Occurrence, ...]
    graph: CanonicalModel
    notes: tuple[Note, ...] = ()

    @cached_property
    def layer_signatures(self) -> tuple[str, ...]:
        """Signature of each single layer; the paper counts layers with equal signatures."""
        same = self.graph is self.model
        single = {o.layers[0]: o.signature for o in self.occurrences if len(o.layers) == 1 and same}
        return tuple(
            single.get(i) or signature(self.model, (i,)) for i in range(len(self.model.layers))
        )

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Number of occurrences of each brick, by signature."""
        return Counter(occurrence.signature for occurrence in self.occurrences)

    def operators(self, signature: str) -> tuple[str, ...]:
        """Operator types of one of the model's bricks."""
        occurrence = next(each for each in self.occurrences if each.signature == signature)
        return tuple(self.graph.layers[index].qualified_op for index in occurrence.layers)

    @property
    def whole(self) -> Brick:
        """The whole model as one brick, to be timed end to end."""
        return whole(self.model)


_wholes: WeakKeyDictionary[CanonicalModel, Brick] = WeakKeyDictionary()
"""Whole models as bricks, for as long as the models exist. An estimate cuts a model in several
ways, and a mixture of experts has ten thousands of layers."""


def whole(model: CanonicalModel) -> Brick:
    """A whole model as one brick.

    The brick keeps all scalars and integers. Rounded constants would change the model: frameworks
    recognize an activation function by its constants, and compute equal values only once. A model
    with denormal weights in its file is a different brick from the same layers with usual weights.
    """
    if model not in _wholes:
        _wholes[model] = _whole(model)
    return _wholes[model]


def _whole(model: CanonicalModel) -> Brick:
    every = tuple(range(len(model.layers)))
    source = with_weights_reread(model) if fits_in_core_cache(model) else model
    slowed = (model.denormal_share,) if model.is_slowed else ()
    values = (*exact_numbers(source, every), *slowed)
    name = signature(source, every)
    identity = signature(source, every, values) if values else name
    return Brick.within(source, every, identity, name)


@dataclass
class BrickSet:
    """The unique bricks of a set of models.

    Attributes:
        granularity: Maximum number of layers in a brick.
        strategy: Name of the split strategy.
        bricks: Unique bricks by signature, in order of first occurrence.
        models: The models, cut.
        rereading: Whether a layer sequence whose weights the model has just read is a separate
            brick from the same sequence with weights from memory. The same applies to inputs and
            outputs of the model that are no longer in a cache.
    """

    granularity: int = 1
    strategy: str = "chain"
    bricks: dict[str, Brick] = field(default_factory=dict)
    models: list[CutModel] = field(default_factory=list)
    rereading: bool = False

    @classmethod
    def of(
        cls,
        models: Iterable[CanonicalModel],
        granularity: int = 1,
        strategy: str = "chain",
        rewritten: Mapping[int, CanonicalModel] | None = None,
        *,
        rereading: bool = False,
    ) -> BrickSet:
        """Cuts and deduplicates models.

        Args:
            models: Models in canonical form.
            granularity: Maximum number of layers in a brick.
            strategy: Name of the split strategy.
            rewritten: Graphs into which a backend rewrites models, by the models' positions.
                These graphs are cut instead of the models.
            rereading: As the attribute of that name.

        Example:
            >>> BrickSet.of([model], granularity=3).bricks
        """
        bricks = cls(granularity, strategy, rereading=rereading)
        for position, model in enumerate(models):
            bricks.add(model, (rewritten or {}).get(position))
        return bricks

    def add(
        self,
        model: CanonicalModel,
        rewritten: CanonicalModel | None = None,
        sequences: Sequence[LayerSequence] | None = None,
    ) -> CutModel:
        """Cuts one more model and keeps its new bricks.

        Args:
            model: Model in canonical form.
            rewritten: Graph into which a backend rewrites the model. This graph is then cut.
            sequences: Positions of the cuts; ``None`` for the strategy's positions.
        """
        graph = rewritten or model
        warm = with_weights_reread(graph)
        if sequences is None:
            sequences = split(graph, self.granularity, self.strategy)
        occurrences = []
        caches = self._caches(model, graph, sequences)
        for sequence, (reread, cold) in zip(sequences, caches, strict=True):
            source = with_cold(warm if reread else graph, cold)
            identity = signature(source, sequence)
            if identity not in self.bricks:
                self.bricks[identity] = Brick.within(source, sequence, identity)
            occurrences.append(Occurrence(identity, sequence))
        cut = CutModel(model, tuple(occurrences), graph)
        self.models.append(cut)
        return cut

    def _caches(
        self, model: CanonicalModel, graph: CanonicalModel, sequences: Sequence[LayerSequence]
    ) -> Sequence[tuple[bool, AbstractSet[str]]]:
        """State of the caches as each layer sequence finds them.

        Returns:
            Whether the model has just read the weights of the sequence, and the inputs and outputs
            of the model that are in no cache.
        """
        if not self.rereading:
            return [(False, frozenset())] * len(sequences)
        if fits_in_core_cache(model):
            return [(True, frozenset())] * len(sequences)
        return list(zip(rereads(graph, sequences), cold_ends(graph, sequences), strict=True))

    @property
    def unique_layers(self) -> int:
        """Number of different layers over all models."""
        return len({s for cut in self.models for s in cut.layer_signatures})

    @property
    def layers(self) -> int:
        """Number of layers over all models."""
        return sum(len(cut.model.layers) for cut in self.models)


# Names of a model's tensors in the graphs that backends make of it.

_LAYOUT = "@"


def in_layout(name: str, layout: str) -> str:
    """Name of a model's tensor in a rewritten graph that stores the tensor in another layout.

    Example:
        >>> in_layout("features", "nchwc")
        'features@nchwc'
    """
    return f"{name}{_LAYOUT}{layout}"


def original(model: CanonicalModel, name: str) -> str | None:
    """Name of the model's tensor that a rewritten graph has under a name; ``None`` if unknown.

    The graph uses the model's name of the tensor, or that name with a layout (:func:`in_layout`).
    """
    if name in model.producers:
        return name
    return plain(name) if plain(name) in model.producers else None


def plain(name: str) -> str:
    """Name of a tensor without its layout, as before :func:`in_layout`; empty without a layout."""
    return name.rpartition(_LAYOUT)[0]
