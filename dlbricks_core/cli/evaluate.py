"""``dlbricks evaluate``: shows the accuracy of estimates."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import evaluation_data, print_evaluation
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import Approach, Invocation, Wishes, evaluate, load_models


@click.command("evaluate")
@options.models_argument
@measuring.evaluate_options
@measuring.timing_options
@options.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Tell how far estimates are from measured latencies, model by model.

    Every model runs as its user runs it, and its estimate rests on the runs of the others, on what
    the store holds, and on predictions. With --condition cold, a composer, -G or --split, whole
    models and their bricks are timed in the same rounds instead. Exit status 3: a model has no
    complete estimate or could not be timed; it is named, and left out of the figures.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    load = given.load_options_of(values)
    approach = Approach.of_comparison(Wishes.among(values))
    request = given.approached(values, approach)
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_models(models, load, progress, given.import_settings_of(values))
        evaluation = evaluate(
            loaded.models,
            approach.cut_options,
            request,
            opened,
            progress,
        ).lacking(loaded.failures)
    print_evaluation(output.console, evaluation)
    invocation = partial(Invocation.of, "evaluate", loaded.models, end_to_end=True)
    output.write_record(lambda: evaluation_data(evaluation, load, invocation()))
    output.write_html(lambda: report.evaluation_page(evaluation, load))
    return EXIT_PARTIAL if evaluation.left_out or evaluation.result.failures else 0
