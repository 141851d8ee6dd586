"""Packs models, or bricks of models, for another machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dlbricks_core.bricks import BrickSet
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.suites import Cut, Suite, SuiteBrick, write_suite
from dlbricks_core.workflows.composing import CutOptions, find_composer
from dlbricks_core.workflows.observer import Observer

DECOYS = 20
"""Default number of decoys for each brick of a private suite."""


def generate(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions | None,
    folder: Path,
    seed: int,
    observer: Observer,
) -> Suite:
    """Writes a suite, from which another machine can time the bricks of models, without weights.

    By default a suite holds the structures of the models, because the bricks depend on the graphs
    into which a framework rewrites them. With options for cutting, it holds bricks of the models as
    they are. Then it reveals neither the model of a brick nor the number of occurrences.

    Args:
        models: In canonical form.
        cut_options: How to cut; ``None`` for the structures.
        folder: Folder of the suite. It is created if missing, and must not hold a suite already.
        seed: Seed of the weights in the files of bricks.
        observer: Receives the progress.

    Raises:
        DLBricksError: If the folder cannot be written, or holds a suite already.
    """
    suite = _structures(models) if cut_options is None else _bricks(models, cut_options, seed)
    observer.stage(f"Writing {len(suite.models or suite.bricks)} networks")
    return write_suite(suite, folder)


def _structures(models: Sequence[CanonicalModel]) -> Suite:
    options = CutOptions.chosen(None, None, None)
    rereading = find_composer(options.composer).rereading
    brickset = BrickSet.of(models, options.granularity, options.strategy, rereading=rereading)
    return Suite.of_models(_cut(options), brickset.models, brickset.bricks.values())


def _bricks(models: Sequence[CanonicalModel], options: CutOptions, seed: int) -> Suite:
    brickset = BrickSet.of(models, options.granularity, options.strategy)
    # Sorted, so that the order does not reveal the position of a brick in a model.
    bricks = [SuiteBrick(brickset.bricks[identity]) for identity in sorted(brickset.bricks)]
    return Suite(_cut(options), bricks=bricks, seed=seed)


def _cut(options: CutOptions) -> Cut:
    return Cut(options.composer, options.strategy, options.granularity)
