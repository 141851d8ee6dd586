"""``dlbricks explain``: shows where an estimate deviates and why."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import (
    SHOWN,
    explanation_data,
    print_explanation,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import load_model
from dlbricks_core.workflows.explain import explain


@click.command("explain")
@click.argument("model")
@measuring.estimate_options
@measuring.timing_options
@click.option("--top", type=click.IntRange(min=1), default=SHOWN, show_default=True,
              help="Number of groups to print; files have all of them.")  # fmt: skip
@options.result_options
def command(model: str, top: int, store: str | None, **values: Any) -> int:
    """Tell where the estimate of MODEL deviates and why.

    Times the whole model and its bricks in the same rounds, as 'evaluate' does, and shows what
    the estimate counts for each group of layers beside the backend's own profile of the whole
    model, if its framework offers one; the groups that deviate most come first. Exit status 3:
    something could not be timed or profiled; it is named.
    """
    output = Output(values)
    load = given.load_options_of(values)
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_model(model, load, progress, given.import_settings_of(values))
        explanation = explain(
            loaded,
            given.cut_options_of(values),
            given.request_of(values),
            opened,
            progress,
        )
    print_explanation(output.console, explanation, top)
    output.write_json(explanation_data(explanation, load))
    output.write_html(lambda: report.explanation_page(explanation, load))
    return 0 if explanation.complete else EXIT_PARTIAL
