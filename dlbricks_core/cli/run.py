"""``dlbricks run``: the main job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import print_run, run_data, run_page
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import load_models, run


@click.command("run")
@options.models_argument
@options.quantity_option
@options.estimate_options
@options.timing_options
@click.option(
    "--end-to-end/--no-end-to-end",
    default=True,
    show_default=True,
    help="Time the whole models too, to compare.",
)
@options.result_options
def command(models: tuple[str, ...], end_to_end: bool, store: str | None, **values: Any) -> int:
    """Estimate models from their bricks and compare with the whole.

    Without a MODEL it takes a set of well-known networks that the backend names. What the
    store already holds is not measured again.
    """
    output = Output(values)
    load = options.load_options_of(values)
    request = options.request_of(values)
    names = models or tuple(request.backend.default_models)
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_models(names, load, progress, options.import_settings_of(values))
        result = run(
            loaded.models,
            options.cut_options_of(values),
            request,
            opened,
            progress,
            end_to_end=end_to_end,
        )
    result = replace(result, unread=loaded.failures)
    print_run(output.console, result)
    output.write_json(run_data(result, load))
    output.write_html(lambda: run_page(result, load))
    return EXIT_PARTIAL if result.failures else 0
