"""``dlbricks run``: the main job."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.cli import given, loads, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import print_run, run_data
from dlbricks_core.report.scenarios.data import scenario_data
from dlbricks_core.report.scenarios.words import told
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import Approach, Invocation, Wishes, load_asked, run
from dlbricks_core.workflows.scenarios.run import run_scenario


@click.command("run")
@options.models_argument
@measuring.quantity_option
@measuring.run_options
@measuring.condition_option
@loads.scenario_options
@measuring.sizes_options
@measuring.timing_options
@click.option(
    "--end-to-end/--no-end-to-end",
    default=None,
    help="Time the whole models too, to compare.  [default: only without a MODEL]",
)
@options.result_options
def command(
    models: tuple[str, ...],
    end_to_end: bool | None,
    store: str | None,
    scenario: str | None,
    **values: Any,
) -> int:
    """Estimate models, running as few of them as their precision needs.

    A model runs as its user runs it; a profile of the run tells the latencies of its bricks, and
    models that share these need no run. Without a MODEL it takes a set of networks that the
    backend names, and compares the estimates with measured latencies. Stored measurements are
    not repeated.

    With --scenario it estimates throughput and tail latency of instances of a MODEL, composed from
    bricks that are timed while other instances are busy.
    """
    if scenario is not None:
        return _under_load(models, scenario, store, {**values, "end_to_end": bool(end_to_end)})
    loads.check_no_scenario(values)
    values["threads"] = loads.one_number(values["threads"])
    sizes = given.sizes_of(values)
    output = Output(values)
    load = given.load_options_of(values)
    compares = not models if end_to_end is None else end_to_end
    approach = Approach.of_run(Wishes.among(values))
    request = given.approached(values, approach)
    names = models or tuple(request.backend.default_models)
    if sizes is not None and not models:
        raise click.UsageError("Name at least one MODEL.")
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_asked(names, sizes, load, progress, given.import_settings_of(values))
        result = run(
            loaded.models, approach.cut_options, request, opened, progress, end_to_end=compares
        )
    result = loaded.told(result)
    print_run(output.console, result)
    output.write_record(
        lambda: run_data(result, load, Invocation.of("run", loaded.models, end_to_end=compares))
    )
    output.write_html(lambda: report.run_page(result, load))
    return EXIT_PARTIAL if result.failures else 0


def _under_load(
    models: tuple[str, ...], scenario: str, store: str | None, values: dict[str, Any]
) -> int:
    """Prints the figures of models in a scenario."""
    asked = loads.asked_of(models, scenario, values)
    request = given.request_of({**values, "threads": asked.placements[-1].threads})
    cut_options = given.cut_options_of(values)
    return loads.report(
        models,
        store,
        values,
        lambda opened: (
            lambda loaded, progress: run_scenario(
                loaded, asked, request, opened, progress, cut_options
            )
        ),
        told,
        scenario_data,
    )
