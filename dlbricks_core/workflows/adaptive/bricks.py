"""Estimates from bricks that are timed alone, as many as the precision needs."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import DEFAULT_COMPOSER, CutOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.dial import dial
from dlbricks_core.workflows.dial.precisions import FINEST
from dlbricks_core.workflows.measuring import measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.timing_order import run_targets


def from_bricks(
    models: Sequence[CanonicalModel],
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool = False,
) -> RunResult:
    """Estimates models from bricks: the most informative ones, or all for a fine precision.

    Args:
        models: Models in canonical form.
        request: How networks are measured, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        end_to_end: Whether to time the whole models as well, for comparison.
    """
    if request.precision is not None and request.precision > FINEST:
        return dial(models, request, store, observer, end_to_end=end_to_end)
    options = CutOptions.chosen(None, None, DEFAULT_COMPOSER)
    calibration = store.calibration(options.calibration_key(request))
    cutting = cut_models(models, options, request, observer, calibration, store=store)
    targets = run_targets(cutting, end_to_end=end_to_end, backend=request.runs_natives)
    outcome = measure(targets, request, store, observer, cutting)
    outcome.effort.add_loading("brick", cutting.seconds)
    return assemble(request, cutting, outcome)
