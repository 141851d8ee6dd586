"""The main job: cut models into bricks, time the bricks, compose, compare with the whole."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.bricks import BrickSet
from dlbricks_core.facts import Calibration
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.context import Context, MeasureOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.measuring import measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.timing_order import run_targets


def run(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    options: MeasureOptions,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool = True,
) -> RunResult:
    """Estimates models from their bricks, timing what the store lacks.

    Args:
        models: In canonical form.
        cut_options: How to cut and compose.
        options: How to measure.
        store: Where measurements are kept.
        observer: Told of progress.
        end_to_end: Whether to time the whole models as well, to compare.
    """
    context = Context.of(options)
    brickset, cutting_s = cut_models(models, cut_options, context, options, observer)
    return run_bricks(
        brickset,
        cut_options,
        context,
        options,
        store,
        observer,
        end_to_end=end_to_end,
        cutting_s=cutting_s,
        calibration=store.calibration(cut_options.calibration_key(context)),
    )


def run_bricks(
    brickset: BrickSet,
    cut_options: CutOptions,
    context: Context,
    options: MeasureOptions,
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
        context: What measurements are identified by.
        options: How to measure.
        store: Where measurements are kept.
        observer: Told of progress.
        end_to_end: Whether to time the whole models as well, to compare.
        cutting_s: Seconds that cutting took the backend.
        calibration: Fitted numbers for the composer; ``None`` for its own.
    """
    targets = run_targets(brickset, end_to_end=end_to_end, backend=context.backend)
    outcome = measure(targets, context, options, store, observer, brickset.models)
    outcome.effort.add_loading("brick", cutting_s)
    return assemble(context, options, cut_options, brickset, outcome, calibration)
