"""The main job: cut models into bricks, time the bricks, compose, compare with the whole."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.bricks import BrickSet
from dlbricks_core.facts import Calibration
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.measuring import measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.timing_order import run_targets


def run(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool = True,
) -> RunResult:
    """Estimates models from their bricks, timing what the store lacks.

    Args:
        models: In canonical form.
        cut_options: How to cut and compose.
        request: How to measure.
        store: Where measurements are kept.
        observer: Told of progress.
        end_to_end: Whether to time the whole models as well, to compare.
    """
    brickset, cutting_s = cut_models(models, cut_options, request, observer)
    return run_bricks(
        brickset,
        cut_options,
        request,
        store,
        observer,
        end_to_end=end_to_end,
        cutting_s=cutting_s,
        calibration=store.calibration(cut_options.calibration_key(request)),
    )


def run_bricks(
    brickset: BrickSet,
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool = True,
    cutting_s: float = 0.0,
    calibration: Calibration | None = None,
) -> RunResult:
    """The same for models that are cut already.

    Args:
        brickset: The models and their bricks.
        cut_options: How they were cut, and how to compose.
        request: How to measure.
        store: Where measurements are kept.
        observer: Told of progress.
        end_to_end: Whether to time the whole models as well, to compare.
        cutting_s: Seconds that cutting took the backend.
        calibration: Fitted numbers for the composer; ``None`` for its own.
    """
    targets = run_targets(brickset, end_to_end=end_to_end, backend=request.backend)
    outcome = measure(targets, request, store, observer, brickset.models)
    outcome.effort.add_loading("brick", cutting_s)
    return assemble(request, cut_options, brickset, outcome, calibration)
