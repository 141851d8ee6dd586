"""Decoys: bricks of other models that fit in place of a model's own.

Decoys are never made separately. A layer sequence of another model, resized to the same ends,
replaces each layer sequence of the model. The resulting networks are cut, and rewritten by a
backend, just like the model. So only its computation distinguishes a decoy from a true brick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise

import numpy as np

from dlbricks_core.bricks import BrickSet, CutModel, LayerSequence, extract, signature
from dlbricks_core.bricks.brickset import original, plain
from dlbricks_core.bricks.signature import live_outputs
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_private.bulk import Bulk
from dlbricks_private.cutting import Cutting
from dlbricks_private.fitting import LONGEST, PAIRS, Fitting, Piece
from dlbricks_private.grafting import ends_of, grafted
from dlbricks_private.published import Skeleton, skeleton
from dlbricks_private.style import Style, join_of

_MOST_LOOKED_AT = 1500
"""Maximum number of pieces to try for one position."""

_OWN_TURNS = 4
"""Number of times that each of the model's own sequences is resized."""


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
        if occurrence.signature not in found and ends_of(cut.graph, occurrence.layers) is not None:
            found[occurrence.signature] = Piece(
                cut.model.name, extract(cut.graph, occurrence.layers, occurrence.signature)
            )
    return [piece for piece in found.values() for _ in range(_OWN_TURNS)]


def decoy_networks(
    cut: CutModel,
    donors: Sequence[Piece],
    number: int,
    cutting: Cutting,
    random: np.random.Generator,
) -> list[CanonicalModel]:
    """Networks in which other layer sequences replace those of a model.

    Equal sequences of the model are replaced by equal ones. A sequence with too few replacements
    remains in some of the networks. No replacement has more than twice the weights or operations of
    the model's largest sequence, because widths inside grow with those at the ends.

    Args:
        cut: The model as it is, cut where its sequences are to be replaced.
        donors: Sequences of other models.
        number: Number of networks.
        cutting: How the model was cut.
        random: Generator that draws the sequences.
    """
    places = {each.signature: each.layers for each in cut.occurrences}
    style = Style.of(cut.graph, places.values())
    limit = Bulk.limit(extract(cut.graph, place, identity) for identity, place in places.items())
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
            found = _chosen(
                cut, identity, own, ordered, forms, style, limit, cutting, number, seed, taken
            )
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
    limit: Bulk,
    cutting: Cutting,
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
    ends = ends_of(cut.graph, place)
    if ends is None:
        return []
    read, written = (cut.graph.tensors[name] for name in ends)
    random = np.random.default_rng(seed)
    fitting = Fitting(read, written, limit, random, style.steps)
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
            if skeleton(each) not in forms and len(each.layers) <= LONGEST * len(place)
        ]
    as_cut = cutting.allows(whole)

    def may_be_cut(model: CanonicalModel) -> bool:
        return not as_cut or cutting.allows(model)

    def fits(model: CanonicalModel) -> bool:
        return limit.holds(model) and may_be_cut(model)

    known = set(taken)
    proposed = list(_different(filter(fits, chain(alike, every)), known))
    if len(proposed) < number:
        missing = number - len(proposed)
        further = chain(
            *(fitting.partly(whole, donors, missing) for _ in range(PAIRS)),
            fitting.through(donors, number),
        )
        proposed += islice(_different(filter(fits, further), known), missing)
    proposed += _different(filter(may_be_cut, fitting.of(own)), known)
    return _joined_alike(proposed, style, number, random)


def _by_ends(cut: CutModel, places: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Sequences of a model by their signatures, those with equal ends together."""
    found: dict[object, list[str]] = {}
    for identity, place in places.items():
        ends = ends_of(cut.graph, place)
        specs = tuple(cut.graph.tensors[name] for name in ends) if ends else identity
        found.setdefault(specs, []).append(identity)
    return list(found.values())


def _identity(model: CanonicalModel) -> str:
    return signature(model, range(len(model.layers)))


def _different(models: Iterable[CanonicalModel], known: set[str]) -> Iterator[CanonicalModel]:
    """Distinct new sequences; they are added to the known sequences."""
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


def _with_decoys(cut: CutModel, instead: Mapping[str, CanonicalModel]) -> CanonicalModel:
    """The model with some sequences replaced, by their signatures."""
    return grafted(
        cut.graph,
        [
            (each.layers, instead[each.signature])
            for each in cut.occurrences
            if each.signature in instead and ends_of(cut.graph, each.layers) is not None
        ],
    )
