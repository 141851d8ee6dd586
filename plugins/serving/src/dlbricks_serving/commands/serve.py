"""``dlbricks serve``: throughput and tail latency of instances of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import click

from dlbricks_core.commands.options import given, measuring, reading
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import CUT, PRECISE, READING, SETUP, TIMED, option
from dlbricks_core.commands.options.settings import options as options_of
from dlbricks_core.importers import LoadOptions
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_serving.serving.comparing import ComparedLoads, compare_under_load
from dlbricks_serving.serving.job import ServeJob
from dlbricks_serving.serving.report.data import compared_loads_data, scenario_data
from dlbricks_serving.serving.report.page import scenario_page
from dlbricks_serving.serving.report.terminal import print_scenario
from dlbricks_serving.serving.report.words import LoadReport, compared_load_report, load_report
from dlbricks_serving.serving.run import LoadRequest, UnderLoad
from dlbricks_serving.settings import LOAD, THREADS

LoadsT = TypeVar("LoadsT", UnderLoad, ComparedLoads)


@click.command("load", cls=Concise)
@options.models_argument
@options_of(*LOAD)
@options_of(*SETUP, THREADS, *TIMED, *PRECISE, *CUT, "composer", *READING)
@option("measure", help="Time bricks while other instances are busy.")
@option("end_to_end", help="With --measure: put whole models under load, too.")
@measuring.timing_options
@option("system")
@measuring.predictor_option
@options.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Estimate throughput and tail latency of instances of MODELs.

    Figures come from the store and from predictions. With --measure, bricks are timed while other
    instances are busy.
    """
    job = given.job_of(ServeJob, models, values)
    return _report(values, partial(job.run, store), load_report, scenario_data)


@click.command("compare", cls=Concise)
@options.models_argument
@options_of(*LOAD)
@options_of(
    "backends", "backend_options", THREADS, *TIMED, *PRECISE, backend_options=measuring.OF_EACH
)
@options.cut_options
@options.load_options
@option("end_to_end", help="Put whole models under load, too.")
@measuring.timing_options
@options.result_options
def compare_command(
    models: tuple[str, ...], store: str | None, scenario: str, **values: Any
) -> int:
    """Compare throughput and tail latency of instances of MODELs on several frameworks.

    Figures are composed from bricks that are timed while other instances are busy.
    """
    chosen = given.models_of(models, values).or_default()
    load = LoadRequest.of(
        scenario,
        instances=values["instances"],
        threads=values["threads"],
        bound_ms=values["latency_bound_ms"],
        seconds=values["duration_s"],
        end_to_end=values["end_to_end"],
    )
    requests = given.requests_of({**values, "threads": load.placements[-1].threads})
    cut_options = reading.cut_options_of({**values, "composer": None})

    def run(observer: Observer) -> ComparedLoads:
        with ResultStore.open(store) as opened:
            loaded = chosen.load(observer)
            result = compare_under_load(
                loaded.models, load, requests, opened, observer, cut_options
            )
        return replace(result, unread=loaded.failures)

    return _report(values, run, compared_load_report, compared_loads_data)


def _report(
    values: dict[str, Any],
    run: Callable[[Observer], LoadsT],
    in_words: Callable[[LoadsT], LoadReport],
    data: Callable[[LoadsT, LoadOptions], Mapping[str, Any]],
) -> int:
    """Reports figures of models under load.

    Args:
        values: Values of the options.
        run: Function that finds the figures.
        in_words: Function that gives the figures in words.
        data: Function that gives the figures as JSON.

    Returns:
        The exit status.
    """
    output = Output(values)
    load = reading.load_options_of(values)
    with output.progress() as progress:
        result = run(progress)
    shown = in_words(result)
    print_scenario(output.console, shown)
    output.write_record(lambda: data(result, load))
    output.write_html(lambda: scenario_page(shown, load))
    return 0 if result.is_sound else EXIT_PARTIAL
