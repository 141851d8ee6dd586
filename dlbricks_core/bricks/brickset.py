"""Deduplication: the unique bricks that a set of models consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dlbricks_core.bricks.annotations import with_cold, with_weights_reread
from dlbricks_core.bricks.extract import exact_numbers, extract
from dlbricks_core.bricks.rereading import cold_ends, fits_in_core_cache, rereads
from dlbricks_core.bricks.signature import signature
from dlbricks_core.bricks.split import split

if TYPE_CHECKING:
    from dlbricks_core.bricks.split import LayerSequence
    from dlbricks_core.facts import Note
    from dlbricks_core.ir import CanonicalModel


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
        """Signature of each layer alone; the paper counts repetition in these."""
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

    It keeps all scalars and integers. Rounded constants would change the model: frameworks
    recognize an activation function by its constants, and compute equal values only once. Denormal
    weights in its file make it another brick than the same layers with usual ones.
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
            rewritten: Graphs that a backend rewrites models into, by the models' position. They
                are cut in the models' place.
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
            rewritten: Graph that a backend rewrites the model into. It is cut in its place.
            sequences: Positions of the cuts; ``None`` for the strategy's positions.
        """
        graph = rewritten or model
        warm = with_weights_reread(graph)
        if sequences is None:
            sequences = split(graph, self.granularity, self.strategy)
        occurrences = []
        marks = self._reread(model, graph, sequences), self._cold(model, graph, sequences)
        for sequence, reread, cold in zip(sequences, *marks, strict=True):
            source = with_cold(warm if reread else graph, cold)
            identity = signature(source, sequence)
            if identity not in self.bricks:
                self.bricks[identity] = Brick.within(source, sequence, identity)
            occurrences.append(Occurrence(identity, sequence))
        cut = CutModel(model, tuple(occurrences), graph)
        self.models.append(cut)
        return cut

    def _reread(
        self, model: CanonicalModel, graph: CanonicalModel, sequences: Sequence[LayerSequence]
    ) -> Sequence[bool]:
        """Whether the model has just read the weights of each layer sequence."""
        if not self.rereading:
            return [False] * len(sequences)
        if fits_in_core_cache(model):
            return [True] * len(sequences)
        return rereads(graph, sequences)

    def _cold(
        self, model: CanonicalModel, graph: CanonicalModel, sequences: Sequence[LayerSequence]
    ) -> Sequence[AbstractSet[str]]:
        """Inputs and outputs of the model that each layer sequence finds in no cache."""
        if not self.rereading or fits_in_core_cache(model):
            return [frozenset()] * len(sequences)
        return cold_ends(graph, sequences)

    @property
    def unique_layers(self) -> int:
        """Number of different layers over all models."""
        return len({s for cut in self.models for s in cut.layer_signatures})

    @property
    def layers(self) -> int:
        """Number of layers over all models."""
        return sum(len(cut.model.layers) for cut in self.models)
