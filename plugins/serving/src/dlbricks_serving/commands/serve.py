"""``dlbricks serve``: throughput and tail latency of instances of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import CUT, READING, SETUP, option
from dlbricks_core.commands.options.settings import options as options_of
from dlbricks_core.importers import LoadOptions
from dlbricks_serving.serving.comparing import ComparedLoads
from dlbricks_serving.serving.job import ServeCompareJob, ServeJob
from dlbricks_serving.serving.report.data import compared_loads_data, scenario_data
from dlbricks_serving.serving.report.page import scenario_page
from dlbricks_serving.serving.report.terminal import print_scenario
from dlbricks_serving.serving.report.words import LoadReport, compared_load_report, load_report
from dlbricks_serving.serving.run import UnderLoad
from dlbricks_serving.settings import LOAD, THREADS

LoadsT = TypeVar("LoadsT", UnderLoad, ComparedLoads)

_REPEATING = ("force", "busy")
"""Settings of repetition. What failed is tried again in any case."""


@click.command("load", cls=Concise)
@shared.models_argument
@options_of(*LOAD)
@options_of(*SETUP, THREADS, "protocol", "seed", *CUT, "composer", *READING)
@option("measure", help="Time bricks while other instances are busy.")
@option("end_to_end", help="With --measure: put whole models under load, too.")
@options_of(*_REPEATING)
@option("system")
@shared.predictor_option
@shared.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Estimate throughput and tail latency of instances of MODELs.

    Figures come from the store and from predictions. With --measure, bricks are timed while other
    instances are busy, for a fixed time. Exit status 3: a figure failed or is doubtful, or no
    number of instances and threads keeps the bound for a model; it is named.
    """
    output = Output({**values, "store": store})
    job = given.job_of(ServeJob, models, values)
    with output.progress() as progress:
        result = job.run(store, progress)
    return _report(output, result, job.models.options, load_report, scenario_data)


@click.command("compare", cls=Concise)
@shared.models_argument
@options_of(*LOAD)
@options_of(
    "backends", "backend_options", THREADS, "protocol", "seed", backend_options=shared.OF_EACH
)
@shared.cut_options
@shared.load_and_run_options
@option("end_to_end", help="Put whole models under load, too.")
@options_of(*_REPEATING)
@shared.result_options
def compare_command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Compare throughput and tail latency of instances of MODELs on several frameworks.

    Figures are composed from bricks that are timed while other instances are busy, for a fixed
    time. Exit status 3: a figure failed or is doubtful, or no framework keeps the bound for a
    model; it is named.
    """
    output = Output({**values, "store": store})
    job = given.job_of(ServeCompareJob, models, values)
    with output.progress() as progress:
        result = job.run(store, progress)
    return _report(output, result, job.models.options, compared_load_report, compared_loads_data)


def _report(
    output: Output,
    result: LoadsT,
    load: LoadOptions,
    in_words: Callable[[LoadsT], LoadReport],
    data: Callable[[LoadsT, LoadOptions], Mapping[str, Any]],
) -> int:
    """Reports figures of models under load.

    Args:
        output: Output of the command.
        result: The figures.
        load: How models were read.
        in_words: Function that gives the figures in words.
        data: Function that gives the figures as JSON.

    Returns:
        The exit status.
    """
    shown = in_words(result)
    print_scenario(output.console, shown)
    output.write_record(lambda: data(result, load))
    output.write_html(lambda: scenario_page(shown, load))
    return 0 if result.is_sound else EXIT_PARTIAL
