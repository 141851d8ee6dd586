"""``dlbricks compare``: models and their parts on several frameworks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.cli import given, loads, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import comparison_data, print_comparison
from dlbricks_core.report.scenarios.data import compared_loads_data
from dlbricks_core.report.scenarios.words import told_compared
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import Approach, Invocation, Wishes, compare, load_models
from dlbricks_core.workflows.scenarios.comparing import compare_under_load


@click.command("compare")
@options.models_argument
@measuring.quantity_option
@measuring.measure_each_options
@options.cut_options
@options.load_options
@loads.scenario_options
@click.option(
    "--end-to-end",
    is_flag=True,
    help="With --scenario: put whole models under load, too.",
)
@measuring.timing_options
@options.result_options
def command(models: tuple[str, ...], store: str | None, scenario: str | None, **values: Any) -> int:
    """Time models on several frameworks: which is fastest, by how much, and in which parts.

    Each framework runs whole models as their users run them, in a process of its own; they take
    turns model by model. Profiles tell the latencies of the parts between places where all of them
    cut a model. Stored measurements are not repeated.

    With --condition cold, whole models and segments of what each framework makes of them are timed
    in the same rounds. With -G or --split the model's own layers are cut instead; these pay for
    conversions that whole models do not need.

    With --quantity something else than latency is compared, such as load time or peak memory.

    With --scenario throughput and tail latency of instances are compared, composed from bricks
    that are timed while other instances are busy.
    """
    if scenario is not None:
        return _under_load(models, scenario, store, values)
    loads.check_no_scenario(values)
    if values["end_to_end"]:
        raise click.UsageError("--end-to-end needs --scenario: whole models are timed anyway.")
    values["threads"] = loads.one_number(values["threads"])
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    load = given.load_options_of(values)
    approach = Approach.of_comparison(Wishes.among(values))
    how = {"precision": approach.precision, "condition": approach.condition}
    requests = given.requests_of({**values, **how})
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_models(models, load, progress, given.import_settings_of(values))
        result = compare(loaded.models, approach.cut_options, requests, opened, progress)
    result = replace(result, unread=loaded.failures)
    print_comparison(output.console, result)
    invocation = partial(Invocation.of, "compare", loaded.models, end_to_end=True)
    output.write_record(lambda: comparison_data(result, load, invocation()))
    output.write_html(lambda: report.comparison_page(result, load))
    return EXIT_PARTIAL if result.failures else 0


def _under_load(
    models: tuple[str, ...], scenario: str, store: str | None, values: dict[str, Any]
) -> int:
    """Prints the figures of models in a scenario on each backend."""
    asked = loads.asked_of(models, scenario, values)
    requests = given.requests_of({**values, "threads": asked.placements[-1].threads})
    cut_options = given.cut_options_of({**values, "composer": None})
    return loads.report(
        models,
        store,
        values,
        lambda opened: (
            lambda loaded, progress: compare_under_load(
                loaded, asked, requests, opened, progress, cut_options
            )
        ),
        told_compared,
        compared_loads_data,
    )
