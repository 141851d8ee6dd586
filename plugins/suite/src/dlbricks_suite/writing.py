"""Suites of models: written, and reported as tables and plain data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.options import CutOptions, find_composer
from dlbricks_core.facts import Failure
from dlbricks_core.importers import LoadOptions
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.progress import Observer
from dlbricks_core.report import data as common
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import Console
from dlbricks_core.wording import count
from dlbricks_suite.folder import Cut, Suite, SuiteBrick, write_suite

if TYPE_CHECKING:
    from dlbricks_core.commands.options.models import Done
    from dlbricks_suite.command import SuiteWriteJob


class SuiteWriteData(common.ListedFailuresData):
    """Output of ``dlbricks suite write``."""

    folder: str  #: Where the suite is.
    #: How it was written; null in a private suite, whose key has that.
    settings: SuiteSettingsData | None
    #: Models whose structures were written; none in a folder of the paper's bricks.
    models: list[GeneratedModelData]
    #: Bricks that were written, or that the models as they are consist of.
    bricks: list[GeneratedBrickData]
    #: Number of decoys among the bricks of a private suite; null from ``dlbricks suite write``.
    private: HiddenBricksData | None


class SuiteSettingsData(common.ReadingData):
    """How a suite was written."""

    granularity: int | None  #: Most layers of one of the paper's bricks; null if not given.
    split: str | None  #: Strategy by which these were cut; null if not given.
    seed: int | None  #: Seed of their weights; null where structures were written.


class GeneratedModelData(TypedDict):
    """A model whose structure was written."""

    name: str  #: Name of the model.
    layers: int  #: Number of its layers.


class GeneratedBrickData(TypedDict):
    """A brick that was written."""

    signature: str  #: Name of its file, without .onnx.
    layers: list[str]  #: Operators in order.


class HiddenBricksData(TypedDict):
    """Numbers of bricks of a private suite. Only the key has the bricks."""

    true: int  #: Different bricks of the models.
    decoys: int  #: Bricks of other models.
    without_decoys: int  #: Number of bricks of the models that no decoy fits.
    whole_models: int  #: Number of models that are one brick, which hides nothing.


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


def print_generated(
    console: Console, suite: Suite, folder: Path, failures: Sequence[Failure]
) -> None:
    """Prints a summary of a written suite, and failures."""
    bricks = count(len(suite.bricks), "brick")
    models = f"{count(len(suite.models), 'model')} of " if suite.models else ""
    console.print(f"{models}{bricks} in {folder}", soft_wrap=True)
    print_failures(console, failures)


def generated_data(
    done: Done[Suite], job: SuiteWriteJob, load: LoadOptions | None = None
) -> SuiteWriteData:
    """Summary of a written suite as a JSON object for scripts."""
    suite = done.result
    return {
        "schema_version": common.SCHEMA_VERSION,
        "folder": str(job.folder),
        "settings": {
            **common.reading_data(load),
            "granularity": job.granularity,
            "split": job.split,
            "seed": suite.seed,
        },
        "models": [
            {"name": each.model.name, "layers": len(each.model.layers)} for each in suite.models
        ],
        "bricks": [
            {"signature": each.brick.signature, "layers": list(each.brick.operators)}
            for each in suite.bricks
        ],
        # Numbers in a suite that a distribution hides among decoys: scripts read both alike.
        "private": None,
        "failures": common.failures_data(done.failures),
    }
