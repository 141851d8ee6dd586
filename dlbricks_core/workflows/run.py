"""The main job: cut models into bricks, time the bricks, compose, compare with the whole."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.backends import Backend
from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.ir import Model
from dlbricks_core.store import Kind, ResultStore
from dlbricks_core.workflows.context import Context, MeasureOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.measuring import Target, measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.results import CutOptions, RunResult, assemble


def run(
    models: Sequence[Model],
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
) -> RunResult:
    """The same for models that are cut already, which took the backend so many seconds."""
    targets = run_targets(brickset, end_to_end=end_to_end, backend=context.backend)
    outcome = measure(targets, context, options, store, observer, brickset.models)
    outcome.effort.add_loading("brick", cutting_s)
    return assemble(context, options, cut_options, brickset, outcome)


def run_targets(brickset: BrickSet, *, end_to_end: bool, backend: Backend) -> list[Target]:
    """Each model right before those of its bricks that come first with it.

    A model of the backend's own framework is timed in its original form as well.
    """
    targets = [t for sweep in sweeps_of(brickset, end_to_end=end_to_end) for t in sweep]
    natives = {
        cut.whole.signature: Target(Brick(cut.whole.signature, cut.model), "native")
        for cut in brickset.models
        if backend.native(cut.model.source)
    }
    return [
        each
        for target in targets
        for each in (target, natives.get(target.brick.signature))
        if each is target or (each is not None and target.kind == "model")
    ]


def sweeps_of(*bricksets: BrickSet, end_to_end: bool) -> list[list[Target]]:
    """For each model: itself, then those of its bricks that come first with it.

    Args:
        bricksets: Of the same models, cut in one way or several; what they spare is left
            out.
        end_to_end: Whether whole models are wanted as well.
    """
    seen: set[tuple[str, Kind]] = set()
    sweeps = []
    for cuts in zip(*(brickset.models for brickset in bricksets), strict=True):
        bricks = {
            signature: brickset.bricks[signature]
            for brickset, cut in zip(bricksets, cuts, strict=True)
            for signature in cut.counts
            if signature not in brickset.spared
        }
        targets = [Target(brick, "brick") for brick in bricks.values()]
        if end_to_end and not any(brick.opaque for brick in bricks.values()):
            targets.insert(0, Target(cuts[0].whole, "model"))
        sweeps.append([t for t in targets if (t.brick.signature, t.kind) not in seen])
        seen.update((t.brick.signature, t.kind) for t in targets)
    return sweeps
