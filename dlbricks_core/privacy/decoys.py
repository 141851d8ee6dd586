"""Decoys: bricks of other models that fit in place of a model's own.

Decoys are never made one by one. A layer sequence of another model, resized to the same ends,
replaces each layer sequence of the model. The resulting networks are cut, and rewritten by a
backend, just like the model. So only its computation distinguishes a decoy from a true brick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise

import numpy as np

from dlbricks_core.bricks import BrickSet, CutModel, LayerSequence, extract, signature
from dlbricks_core.bricks.boundary import live_outputs
from dlbricks_core.bricks.common import original, plain
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.privacy.published import Skeleton, skeleton
from dlbricks_core.privacy.style import Style, join_of
from dlbricks_core.privacy.transplant import transplant

_MOST_LOOKED_AT = 1500
"""Maximum number of pieces to try for one position."""

_OWN_TURNS = 4
"""Number of times that each of the model's own sequences is resized."""

_PAIRS = 5
"""Number of pairs of sequences to try for each wanted one."""

_BETWEEN = (0.25, 0.5, 0.5, 1.0, 1.0, 2.0)
"""Factors of the width between two sequences in a row; each is equally likely."""

_LONGEST = 1.5
"""Maximum number of layers of a pair, relative to the sequence that it replaces."""


@dataclass(frozen=True)
class Piece:
    """A layer sequence that may become a decoy.

    Attributes:
        donor: Name of the model that it is from.
        model: The sequence, with one input and one output.
    """

    donor: str
    model: CanonicalModel


def pieces(models: Iterable[CanonicalModel], granularity: int, strategy: str) -> list[Piece]:
    """Distinct layer sequences of models that can be resized.

    Args:
        models: Donors.
        granularity: Maximum number of layers in a sequence.
        strategy: Name of the split strategy.
    """
    found: dict[str, Piece] = {}
    for model in models:
        for brick in BrickSet.of([model], granularity, strategy).bricks.values():
            if len(brick.model.inputs) == len(brick.model.outputs) == 1 and not brick.opaque:
                found.setdefault(brick.signature, Piece(model.name, brick.model))
    return list(found.values())


def boundaries(cut: CutModel) -> frozenset[str]:
    """Tensors of a model between its bricks, by their names in the model itself."""
    handed_on = (name for each in cut.occurrences for name in live_outputs(cut.graph, each.layers))
    return frozenset(
        known for name in handed_on if (known := original(cut.model, name)) is not None
    )


def cut_at(graph: CanonicalModel, names: Collection[str]) -> list[LayerSequence]:
    """Cuts a graph after each layer that computes one of some tensors.

    Args:
        graph: A model, or the graph that a backend rewrites it into.
        names: Names of tensors of the model. The graph may hold them in other layouts.
    """
    ends = [
        i + 1
        for i, layer in enumerate(graph.layers)
        if any(name in names or plain(name) in names for name in layer.outputs)
    ]
    edges = [0, *(end for end in ends if end < len(graph.layers)), len(graph.layers)]
    return [tuple(range(*each)) for each in pairwise(edges)]


def pieces_of(cut: CutModel) -> list[Piece]:
    """The model's own sequences, each several times, with different drawn widths."""
    found = {}
    for occurrence in cut.occurrences:
        if occurrence.signature not in found and _ends(cut.graph, occurrence.layers) is not None:
            found[occurrence.signature] = Piece(
                cut.model.name, extract(cut.graph, occurrence.layers, occurrence.signature)
            )
    return [piece for piece in found.values() for _ in range(_OWN_TURNS)]


def decoy_networks(
    cut: CutModel, donors: Sequence[Piece], number: int, random: np.random.Generator
) -> list[CanonicalModel]:
    """Networks in which other layer sequences replace those of a model.

    Equal sequences of the model are replaced by equal ones. A sequence with too few replacements
    remains in some of the networks.

    Args:
        cut: The model as it is, cut where its sequences are to be replaced.
        donors: Sequences of other models.
        number: Number of networks.
        random: Generator that draws the sequences.
    """
    places = {each.signature: each.layers for each in cut.occurrences}
    style = Style.of(cut.graph, places.values())
    worn = [replace(each, model=style.worn_by(each.model, random)) for each in donors]
    # The order is the same for all positions, so that sequences of one form recur as in the model.
    ordered, own = list(_mixed(worn, random)), list(_mixed(pieces_of(cut), random))
    forms = {skeleton(each.model) for each in donors}
    seed = int(random.integers(2**31))
    chosen: dict[str, list[CanonicalModel]] = {}
    for alike in _by_ends(cut, places):
        # Positions with the same ends share their decoys, so none may serve two of them.
        taken = set(alike)
        for identity in alike:
            found = _chosen(cut, identity, own, ordered, forms, style, number, seed, taken)
            taken |= set(map(_identity, found))
            chosen[identity] = found
    return [
        _with_decoys(cut, {s: found[i] for s, found in chosen.items() if i < len(found)})
        for i in range(number)
    ]


def _chosen(
    cut: CutModel,
    identity: str,
    own: Sequence[Piece],
    donors: Sequence[Piece],
    forms: Collection[Skeleton],
    style: Style,
    number: int,
    seed: int,
    taken: Collection[str],
) -> list[CanonicalModel]:
    """Distinct sequences that fit in place of a given one, from as many donors as possible.

    A sequence whose form no donor has is replaced by two donor sequences in a row, whose form no
    donor has either. Otherwise an attacker who knows the donors would recognize it by its form.
    Where too few sequences fit, part of the model's own sequence is replaced instead of the whole.
    The model's own from other positions come last, because a form that is more frequent than others
    reveals the model's.
    """
    place = next(each.layers for each in cut.occurrences if each.signature == identity)
    ends = _ends(cut.graph, place)
    if ends is None:
        return []
    read, written = (cut.graph.tensors[name] for name in ends)
    random = np.random.default_rng(seed)
    fitting = _Fitting(read, written, random, style.steps)
    singly = list(fitting.of(donors))
    beside = list(fitting.side_by_side(donors, style.joins, number))
    every = _shuffled([*singly[: len(beside)], *beside], random) + singly[len(beside) :]
    alike: list[CanonicalModel] = []
    whole = extract(cut.graph, place, identity)
    if skeleton(whole) not in forms:
        every = _shuffled([*every, *fitting.in_a_row(donors, number)], random)
        alike = [
            each
            for each in every
            if skeleton(each) not in forms and len(each.layers) <= _LONGEST * len(place)
        ]
    known = set(taken)
    proposed = list(_different(chain(alike, every), known))
    if len(proposed) < number:
        missing = number - len(proposed)
        further = chain(
            *(fitting.partly(whole, donors, missing) for _ in range(_PAIRS)),
            fitting.through(donors, number),
        )
        proposed += islice(_different(further, known), missing)
    proposed += _different(fitting.of(own), known)
    return _joined_alike(proposed, style, number, random)


def _by_ends(cut: CutModel, places: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Sequences of a model by their signatures, those with equal ends together."""
    found: dict[object, list[str]] = {}
    for identity, place in places.items():
        ends = _ends(cut.graph, place)
        specs = tuple(cut.graph.tensors[name] for name in ends) if ends else identity
        found.setdefault(specs, []).append(identity)
    return list(found.values())


def _identity(model: CanonicalModel) -> str:
    return signature(model, range(len(model.layers)))


def _different(models: Iterable[CanonicalModel], known: set[str]) -> Iterator[CanonicalModel]:
    """Distinct sequences among given ones, without the known ones, to which they are added."""
    for each in models:
        name = _identity(each)
        if name not in known:
            known.add(name)
            yield each


def _joined_alike(
    proposed: Sequence[CanonicalModel], style: Style, number: int, random: np.random.Generator
) -> list[CanonicalModel]:
    """The first of given sequences, with the same share of joined branches as in the model."""
    left = {each: _operator(join_of(each, range(len(each.layers)))) for each in proposed}
    found: list[CanonicalModel] = []
    while left and len(found) < number:
        wanted = _operator(style.joins[int(random.integers(len(style.joins)))])
        chosen = next((each for each, join in left.items() if join == wanted), next(iter(left)))
        del left[chosen]
        found.append(chosen)
    return found


def _operator(layer: Layer | None) -> str:
    return layer.op if layer else ""


def _shuffled(
    models: Sequence[CanonicalModel], random: np.random.Generator
) -> list[CanonicalModel]:
    return [models[i] for i in random.permutation(len(models))]


@dataclass(frozen=True)
class _Fitting:
    """Makes sequences that fit in one position.

    Attributes:
        read: Tensor that the sequences read.
        written: Tensor that the sequences compute.
        random: Generator that draws widths and combinations.
        steps: Divisors of widths, each equally likely.
    """

    read: TensorSpec
    written: TensorSpec
    random: np.random.Generator
    steps: Sequence[int]

    def of(
        self,
        candidates: Iterable[Piece],
        read: TensorSpec | None = None,
        written: TensorSpec | None = None,
    ) -> Iterator[CanonicalModel]:
        """The resizable sequences, resized to the position's ends or to given ones."""
        for piece in candidates:
            step = self.steps[int(self.random.integers(len(self.steps)))]
            ends = read or self.read, written or self.written
            found = transplant(piece.model, *ends, self.random, step)
            if found is not None:
                yield found

    def in_a_row(self, donors: Sequence[Piece], number: int) -> Iterator[CanonicalModel]:
        """Two sequences in a row, one of which preserves the shape of its input."""
        read, written = self.read, self.written
        steps = {
            ends: list(islice(self.of(donors, *ends), number))
            for ends in ((read, read), (read, written), (written, written))
        }
        for _ in range(_PAIRS * number):
            middle = read if self.random.random() < 0.5 else written
            halves = steps[read, middle], steps[middle, written]
            if all(halves):
                yield _in_a_row(*map(self._one, halves))

    def partly(
        self, whole: CanonicalModel, donors: Sequence[Piece], number: int
    ) -> Iterator[CanonicalModel]:
        """Variants of a sequence, each with some layers of another variant replaced.

        Which variant is made of which is drawn as a tree, in which the sequence itself has a drawn
        position. So it is no more alike to its variants than they are to each other.
        """
        tree = drawn_tree(number + 1, self.random)
        variants = {0: whole}
        pool = iter(donors)
        for parent, child in tree:
            made = self._partly(variants[parent], pool, _LONGEST * len(whole.layers) + 2)
            if made is None:
                return
            variants[child] = made
            yield made

    def _partly(
        self, whole: CanonicalModel, donors: Iterator[Piece], longest: float
    ) -> CanonicalModel | None:
        """A sequence with some of its layers, but not all, replaced by a donor's."""
        parts = {
            part: ends
            for part in _parts_of(len(whole.layers))
            if (ends := _ends(whole, part)) is not None
        }
        drawn = list(parts)
        for piece in donors if drawn else ():
            part = drawn[int(self.random.integers(len(drawn)))]
            read, written = (whole.tensors[name] for name in parts[part])
            for found in self.of([piece], read, written):
                made = _grafted(whole, [(part, found)])
                if len(made.layers) <= longest:
                    return made
        return None

    def through(self, donors: Sequence[Piece], number: int) -> Iterator[CanonicalModel]:
        """Two sequences in a row, with a drawn width between them."""
        axis = 1 if len(self.written.sizes) == 4 else -1
        for _ in range(_PAIRS * number):
            near = (self.read, self.written)[int(self.random.integers(2))]
            step = self.steps[int(self.random.integers(len(self.steps)))]
            shape = list(near.sizes)
            shape[axis] = max(round(shape[axis] * self.random.choice(_BETWEEN) / step), 1) * step
            middle = replace(near, shape=tuple(shape))
            halves = [
                list(islice(self.of(donors, *ends), number))
                for ends in ((self.read, middle), (middle, self.written))
            ]
            if all(halves):
                yield _in_a_row(*map(self._one, halves))

    def side_by_side(
        self, donors: Sequence[Piece], joins: Iterable[Layer | None], number: int
    ) -> Iterator[CanonicalModel]:
        """Two sequences that read the same tensor, joined as a model joins branches.

        The input itself replaces the second sequence where it fits.
        """
        read, written = self.read, self.written
        if len(read.sizes) != len(written.sizes) or len(written.sizes) < 2:
            return
        for join in {each.op: each for each in joins if each is not None}.values():
            width = written.sizes[1]
            parts = _parts(width, read.sizes[1]) if join.op == "Concat" else [(width, width)]
            for part, rest in parts:
                first, second = (
                    list(islice(self.of(donors, written=_wide(written, each)), number))
                    for each in (part, rest)
                )
                if read == _wide(written, rest):
                    yield from (_joined(each, None, join, written) for each in first)
                elif first and second:
                    for _ in range(number):
                        one, other = self._one(first), self._one(second)
                        yield _joined(one, other, join, written)

    def _one(self, models: Sequence[CanonicalModel]) -> CanonicalModel:
        return models[int(self.random.integers(len(models)))]


def drawn_tree(nodes: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Edges of a drawn tree, away from its node 0, whose position is drawn as well."""
    beside: dict[int, list[int]] = {node: [] for node in range(nodes)}
    labels = random.permutation(nodes).tolist()
    for position in range(1, nodes):
        ends = labels[position], labels[int(random.integers(position))]
        for one, other in (ends, ends[::-1]):
            beside[one].append(other)
    edges, reached = [], [0]
    for node in reached:
        for each in beside[node]:
            if each not in reached:
                edges.append((node, each))
                reached.append(each)
    return edges


def _parts_of(layers: int) -> Iterator[LayerSequence]:
    """Runs of layers that are shorter than the whole."""
    for first in range(layers):
        for after in range(first + 1, layers + 1):
            if after - first < layers:
                yield tuple(range(first, after))


def _parts(width: int, read: int) -> list[tuple[int, int]]:
    """Pairs of branch widths with a given total."""
    parts = [width - read, width // 2, width // 4]
    return [(each, width - each) for each in dict.fromkeys(parts) if 0 < each < width]


def _wide(spec: TensorSpec, width: int) -> TensorSpec:
    return replace(spec, shape=(spec.sizes[0], width, *spec.sizes[2:]))


def _joined(
    first: CanonicalModel, second: CanonicalModel | None, join: Layer, written: TensorSpec
) -> CanonicalModel:
    """Two sequences with the same input, and a layer that joins their results."""
    begin, end = first.inputs[0], f"{first.outputs[0]}/joined"
    if second is None:
        together, branches = first, (begin, first.outputs[0])
    else:
        names = {name: f"beside/{name}" for name in second.tensors}
        names |= {second.inputs[0]: begin, "": ""}
        together = _with(first, second, names)
        branches = first.outputs[0], names[second.outputs[0]]
    layer = Layer(join.op, branches, (end,), join.attributes)
    return replace(
        together,
        layers=(*together.layers, layer),
        outputs=(end,),
        tensors={**together.tensors, end: written},
    )


def _in_a_row(first: CanonicalModel, second: CanonicalModel) -> CanonicalModel:
    """Two sequences as one: the second reads the result of the first."""
    names = {name: f"then/{name}" for name in second.tensors}
    names |= {second.inputs[0]: first.outputs[0], "": ""}
    return replace(_with(first, second, names), outputs=(names[second.outputs[0]],))


def _with(
    first: CanonicalModel, second: CanonicalModel, names: Mapping[str, str]
) -> CanonicalModel:
    """A sequence with the layers of a second one, whose tensors get other names."""
    return replace(
        first,
        layers=(*first.layers, *(_renamed(layer, names) for layer in second.layers)),
        tensors={**first.tensors, **{names[n]: spec for n, spec in second.tensors.items()}},
        weights=first.weights | {names[name] for name in second.weights},
        constants={
            **first.constants,
            **{names[name]: value for name, value in second.constants.items()},
        },
    )


def _renamed(layer: Layer, names: Mapping[str, str]) -> Layer:
    return replace(
        layer,
        inputs=tuple(map(names.__getitem__, layer.inputs)),
        outputs=tuple(map(names.__getitem__, layer.outputs)),
    )


def _mixed(donors: Sequence[Piece], random: np.random.Generator) -> Iterator[Piece]:
    """Pieces in a random order in which donors alternate."""
    turns = Counter[str]()
    order = []
    for position in random.permutation(len(donors)):
        donor = donors[position].donor
        order.append((turns[donor] + random.random(), position))
        turns[donor] += 1
    for _, position in sorted(order)[:_MOST_LOOKED_AT]:
        yield donors[position]


def _ends(graph: CanonicalModel, place: Sequence[int]) -> tuple[str, str] | None:
    """The input and output of a sequence, if it has exactly one of each."""
    inside = set(place)
    layers = [graph.layers[i] for i in place]
    made = {name for layer in layers for name in layer.outputs if name}
    read = {name for layer in layers for name in graph.activations(layer)} - made
    handed_on = {
        name
        for name in made
        if name in graph.output_names or not inside.issuperset(graph.consumers.get(name, ()))
    }
    if len(read) != 1 or len(handed_on) != 1 or any(layer.opaque for layer in layers):
        return None
    return read.pop(), handed_on.pop()


def _with_decoys(cut: CutModel, instead: Mapping[str, CanonicalModel]) -> CanonicalModel:
    """The model with some sequences replaced, by their signatures."""
    return _grafted(
        cut.graph,
        [
            (each.layers, instead[each.signature])
            for each in cut.occurrences
            if each.signature in instead and _ends(cut.graph, each.layers) is not None
        ],
    )


def _grafted(
    graph: CanonicalModel, grafts: Iterable[tuple[LayerSequence, CanonicalModel]]
) -> CanonicalModel:
    """A graph in which other sequences replace runs of its layers, given from first to last.

    Each run has one input and one output.
    """
    layers: list[Layer] = []
    tensors, weights = dict(graph.tensors), set(graph.weights)
    constants = dict(graph.constants)
    reached = 0
    for number, (place, piece) in enumerate(grafts):
        ends = _ends(graph, place)
        assert ends is not None
        layers += graph.layers[reached : place[0]]
        reached = place[-1] + 1
        names = {name: f"graft{number}/{name}" for name in piece.tensors}
        names |= {piece.inputs[0]: ends[0], piece.outputs[0]: ends[1], "": ""}
        tensors |= {names[name]: spec for name, spec in piece.tensors.items()}
        weights |= {names[name] for name in piece.weights}
        constants |= {names[name]: value for name, value in piece.constants.items()}
        layers += [_renamed(layer, names) for layer in piece.layers]
    layers += graph.layers[reached:]
    used = {name for layer in layers for name in (*layer.reads, *layer.outputs)}
    used |= {*graph.inputs, *graph.outputs}
    return replace(
        graph,
        layers=tuple(layers),
        tensors={name: spec for name, spec in tensors.items() if name in used},
        weights=frozenset(weights & used),
        constants={name: value for name, value in constants.items() if name in used},
    )
