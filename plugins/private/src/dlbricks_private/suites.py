"""Packs bricks of secret models among decoys."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
from dlbricks_prediction.survey import draw
from dlbricks_suite.folder import Cut, Suite, SuiteBrick, write_suite

from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.compose.options import DEFAULT_COMPOSER, CutOptions, find_composer
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers.lookup import expand
from dlbricks_core.importers.models import ModelLoader
from dlbricks_core.ir import CanonicalModel, packed
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Benches, Rewrites, benches_or_own, rewrite_models
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_private.chains import AllEnds, all_ends
from dlbricks_private.cutting import Cutting
from dlbricks_private.decoys import boundaries, cut_at, decoy_networks, pieces
from dlbricks_private.fitting import Piece
from dlbricks_private.key import Key, read_key

DECOYS = 20
"""Default number of decoys for each brick."""

PUBLISHED = ("onnx:",)
"""Default models that decoys come from, which every installation has."""

STRATEGY = "short-segments"

_FURTHER = 1
"""Number of batches of decoys that are added where bricks have too few alternatives."""

_DRAWN = 600
"""Number of drawn networks that decoys may come from, besides published models."""


@dataclass(frozen=True)
class Hidden:
    """Bricks of models among decoys."""

    options: CutOptions  #: How the models were cut.
    brickset: BrickSet  #: The models and their bricks.
    decoys: Mapping[str, Brick]  #: Decoys by signature; none is a brick of the models.

    @property
    def bricks(self) -> dict[str, Brick]:
        """True bricks and decoys by signature, in an order that reveals nothing."""
        together = {**self.brickset.bricks, **self.decoys}
        return {signature: together[signature] for signature in sorted(together)}

    @property
    def whole(self) -> list[str]:
        """Names of the models that are one brick, which hides nothing."""
        models = self.brickset.models
        return [cut.model.name for cut in models if len(cut.occurrences) == 1]

    @property
    def bare(self) -> int:
        """Number of true bricks that no decoy shares the ends of."""
        found = {all_ends(brick) for brick in self.decoys.values()}
        return sum(all_ends(brick) not in found for brick in self.brickset.bricks.values())


def private_options(strategy: str | None = None, most: int | None = None) -> CutOptions:
    """How models are cut for a private suite.

    Args:
        strategy: Name of the split strategy; ``None`` for short segments.
        most: Maximum number of layers in a brick; ``None`` for the composer's default.
    """
    return CutOptions.chosen(most, strategy or STRATEGY, DEFAULT_COMPOSER)


def key_beside(folder: Path) -> Path:
    """Default path of the key to a suite."""
    return folder.with_name(f"{folder.name}.key.json")


def generate_private(
    models: Sequence[CanonicalModel],
    options: CutOptions,
    request: Request | None,
    donors: Sequence[CanonicalModel],
    decoys: int,
    folder: Path,
    key: Path,
    observer: Observer,
    seed: int | None = None,
) -> tuple[Suite, Hidden]:
    """Writes a suite of bricks alone, and the key that composes their figures.

    Args:
        models: Models in canonical form.
        options: How to cut, from :func:`private_options`.
        request: The backend that rewrites the models; ``None`` for none.
        donors: Models that decoys come from.
        decoys: Number of decoys for each brick.
        folder: Folder of the suite. It is created if missing, and must not hold a suite already.
        key: Path of the key, which must not exist.
        observer: Receives the progress.
        seed: Seed of the decoys; ``None`` for an unpredictable one.

    Raises:
        DLBricksError: If the suite or the key cannot be written, or exists already.
    """
    if key.resolve().is_relative_to(folder.resolve()):
        raise DLBricksError(
            f"the key {key} would travel with the suite", hint="Write it outside of the folder."
        )
    random = np.random.default_rng(seed)
    hidden = hide(models, options, request, donors, decoys, random, observer)
    suite = Suite(
        Cut(options.composer, options.strategy, options.granularity),
        bricks=[SuiteBrick(brick) for brick in hidden.bricks.values()],
    )
    backend = request.backend.name if request else ""
    observer.stage(f"Writing {len(suite.bricks)} bricks")
    Key.of(hidden.brickset, options.composer, backend).write(key)
    try:
        return write_suite(suite, folder), hidden
    except BaseException:
        key.unlink(missing_ok=True)
        raise


def hide(
    models: Sequence[CanonicalModel],
    options: CutOptions,
    request: Request | None,
    donors: Sequence[CanonicalModel],
    decoys: int,
    random: np.random.Generator,
    observer: Observer,
    benches: Benches | None = None,
) -> Hidden:
    """Cuts models, and finds decoys for their bricks.

    Args:
        models: Models in canonical form.
        options: How to cut.
        request: The backend that rewrites the models; ``None`` for none.
        donors: Models that decoys come from, besides drawn networks.
        decoys: Number of decoys for each brick.
        random: Generator that draws the decoys.
        observer: Receives the progress.
        benches: Workers that are kept for further models; ``None`` for none.
    """
    with benches_or_own(benches) as kept:

        def rewritten(asked: Sequence[CanonicalModel]) -> Rewrites:
            return rewrite_models(asked, request, observer, kept) if request else Rewrites()

        granularity, strategy = options.granularity, options.strategy
        rereading = find_composer(options.composer).rereading
        rewrites = rewritten(models)
        for position, reason in rewrites.refused.items():
            raise DLBricksError(
                f"{models[position].name} cannot be rewritten: {reason}",
                hint="Choose another backend, or none: the model is cut as it is then.",
            )
        brickset = BrickSet.of(models, granularity, strategy, rewrites.graphs, rereading=rereading)
        places = [boundaries(cut) for cut in brickset.models]
        plain = BrickSet(granularity, strategy)
        for model, names in zip(models, places, strict=True):
            plain.add(model, sequences=cut_at(model, names))
        found = _pieces(donors, plain) if decoys else []
        others = BrickSet(granularity, strategy, rereading=rereading)
        cutting = Cutting.of(plain.models, strategy, granularity)
        for number in _batches(decoys):
            if len(_evened(brickset, others, decoys)) == decoys * len(brickset.bricks):
                break
            observer.stage("Looking for decoys", len(models))
            networks, ends = [], []
            for cut, names in zip(plain.models, places, strict=True):
                networks += decoy_networks(cut, found, number, cutting, random)
                ends += [names] * number
                observer.advance(cut.model.name)
            rewrites = rewritten(networks)
            for position, network in enumerate(networks):
                # A network that the backend rejects would stand out by the form of its bricks.
                if position not in rewrites.refused:
                    graph = rewrites.graphs.get(position)
                    others.add(network, graph, cut_at(graph or network, ends[position]))
        return Hidden(options, brickset, _evened(brickset, others, decoys))


def _evened(brickset: BrickSet, others: BrickSet, decoys: int) -> dict[str, Brick]:
    """Decoys of which as many share the ends of each true brick, as far as there are enough.

    Otherwise the ends alone would be evidence: where few decoys fit, a brick is more likely true.
    A decoy that cannot have been cut so is left out, unless the true brick looks so as well.
    """
    cutting = Cutting.of(brickset.models, brickset.strategy, brickset.granularity)
    unlike = {all_ends(b) for b in brickset.bricks.values() if not cutting.allows(b.model)}
    room = Counter[AllEnds]()
    for brick in brickset.bricks.values():
        room[all_ends(brick)] += decoys
    found = {}
    for identity, brick in others.bricks.items():
        ends = all_ends(brick)
        fits = ends in unlike or cutting.allows(brick.model)
        if fits and identity not in brickset.bricks and room[ends] > 0:
            room[ends] -= 1
            found[identity] = brick
    return found


def _batches(decoys: int) -> list[int]:
    """Sizes of successive batches of networks: some decoys do not keep their inputs and outputs."""
    return [decoys, *[math.ceil(decoys / 2)] * _FURTHER] if decoys else []


def published_models(specs: Sequence[str], observer: Observer) -> list[CanonicalModel]:
    """Published models. Models that cannot be loaded are reported in a note.

    Args:
        specs: Names of models and collections; empty for :data:`PUBLISHED`.
        observer: Receives the progress.
    """
    names = expand(specs or PUBLISHED)
    observer.stage("Loading published models", len(names))
    found = []
    with ModelLoader() as loader:
        for name in names:
            try:
                found.append(loader.load_one(name))
            except DLBricksError as error:
                observer.note(f"{name} is left out: {error.message}")
            observer.advance(name)
    return found


def unlocked(
    file: Path, request: Request, results: ResultStore
) -> tuple[list[CanonicalModel], CutOptions]:
    """Models of a private suite, and how they were cut.

    Args:
        file: The owner's key.
        request: Request under which the bricks were measured.
        results: Store with these measurements, which also receives the graphs of the models.

    Raises:
        DLBricksError: If the file holds no key.
    """
    key = read_key(file)
    keep_graphs(key, request, results)
    return list(key.models), CutOptions(key.granularity, key.strategy, key.composer)


def keep_graphs(key: Key, request: Request, store: ResultStore) -> None:
    """Stores the graphs from which a key's models were cut, so that estimates find them.

    Args:
        key: The owner's key.
        request: Request under which the bricks were measured.
        store: Store with these measurements.
    """
    if not key.backend:
        return
    for cut in key.brickset().models:
        store.keep_rewrite(
            cut.whole.signature, request.setup, request.fingerprint, packed(cut.graph)
        )


def _pieces(donors: Sequence[CanonicalModel], plain: BrickSet) -> list[Piece]:
    """Layer sequences of drawn networks, and of donors other than the models themselves."""
    own = {cut.whole.signature for cut in plain.models}
    others = [each for each in donors if CutModel(each, (), each).whole.signature not in own]
    return [*pieces(others, plain.granularity, plain.strategy), *_drawn()]


@cache
def _drawn() -> tuple[Piece, ...]:
    """Drawn networks. They need not be secret, because widths and positions are drawn again."""
    return tuple(
        Piece(each.family, each.brick.model)
        for each in islice(draw(), _DRAWN)
        if len(each.brick.model.inputs) == len(each.brick.model.outputs) == 1
    )
