"""Times a folder of generated bricks on a machine that does not have the models."""

from __future__ import annotations

from pathlib import Path

from dlbricks_core.bricks import BrickSet
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.generate import read_folder
from dlbricks_core.workflows.measuring import Target, measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult


def bench(folder: Path, request: Request, store: ResultStore, observer: Observer) -> RunResult:
    """Times every brick of the folder that the store lacks.

    Raises:
        DLBricksError: If the folder is not one that ``generate`` wrote.
    """
    observer.stage("Reading bricks")
    bricks, cut_options = read_folder(folder)
    brickset = BrickSet(
        cut_options.granularity, cut_options.strategy, {b.signature: b for b in bricks}
    )
    outcome = measure([Target(b, "brick") for b in bricks], request, store, observer)
    return assemble(request, Cutting.all_timed(cut_options, brickset), outcome)
