"""Cuts models as a composer wants them: as they are, or as a backend executes them."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import Model
from dlbricks_core.measure.bench import Bench, BenchSettings
from dlbricks_core.workflows.context import Context, MeasureOptions
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.results import CutOptions, find_composer


def cut_models(
    models: Sequence[Model],
    cut_options: CutOptions,
    context: Context,
    options: MeasureOptions,
    observer: Observer,
) -> tuple[BrickSet, float]:
    """The bricks of models, and how the models consist of them.

    Where the backend cannot run a model, the model itself is cut: its bricks then say
    which layers are to blame.

    Returns:
        The bricks, and the seconds that it took to ask the backend: a cost of
        benchmarking by bricks.
    """
    executed, asking_s = {}, 0.0
    if find_composer(cut_options.composer).executed and context.backend.rewrites:
        begin = perf_counter()
        executed = _executed(models, context, options, observer)
        asking_s = perf_counter() - begin
    observer.stage("Cutting models into bricks")
    return BrickSet.of(models, cut_options.granularity, cut_options.strategy, executed), asking_s


def _executed(
    models: Sequence[Model], context: Context, options: MeasureOptions, observer: Observer
) -> dict[int, Model]:
    observer.stage(f"Asking {context.backend.name} what it makes of the models", len(models))
    settings = BenchSettings(context.settings, options.seed, options.timeout_s)
    made = {}
    with Bench(context.plugin.target, context.backend, settings) as bench:
        for position, model in enumerate(models):
            if not any(layer.opaque for layer in model.layers):
                try:
                    made[position] = bench.executed(model)
                except DLBricksError as error:
                    observer.note(f"{model.name} is cut as it is: {error.message}")
            observer.advance(model.name)
    return made
