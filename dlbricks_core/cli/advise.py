"""``dlbricks advise``: which system, and which model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.cli import given, kinds, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import advice_data, print_advice
from dlbricks_core.scenarios import Scenario
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import NO_PREDICTOR, PREDICTOR, jobs_of, load_asked
from dlbricks_core.workflows.advice import Wanted, order_by
from dlbricks_core.workflows.advise import advise
from dlbricks_core.workflows.places import places
from dlbricks_core.workflows.requirements import Requirement
from dlbricks_core.workflows.tariff import Accuracies, Prices

_file = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("advise")
@options.models_argument
@click.option(
    "--max-latency",
    "max_latency_ms",
    type=kinds.LATENCY_MS,
    metavar="TIME",
    help="Maximum latency of a run, its percentile under load, or total time of an answer (50ms, "
    "0.5s; milliseconds without a unit).",
)
@click.option(
    "--require",
    "required",
    metavar="QUANTITY<=VALUE",
    multiple=True,
    help="Upper bound on a quantity (peak-memory<=500MiB, cold-start<=2s; 'dlbricks plugins' "
    "lists probes), or with --prompt time-to-first-token and time-per-output-token. May be given "
    "more than once.",
)
@click.option(
    "--by",
    metavar="QUANTITY",
    help="Quantity whose best value comes first: latency, price, or one with a probe, such as "
    "peak-memory ('dlbricks plugins' lists probes); with --prompt also time-to-first-token and "
    "time-per-output-token, with --scenario also throughput.  [default: price with --prices, "
    "otherwise latency, or throughput of the scenarios offline and server]",
)
@click.option(
    "--on",
    metavar="SYSTEM",
    multiple=True,
    help="Only this system: its name ('dlbricks systems list'), the beginning of its fingerprint, "
    "or the name of its processor or its microarchitecture (zen4). One that only the atlas knows "
    "has to be named. May be given more than once.  [default: all of the store]",
)
@click.option(
    "--backend",
    "backends",
    metavar="NAME",
    multiple=True,
    help="Only this framework. May be given more than once.  [default: all of the store]",
)
@click.option(
    "--prices",
    type=_file,
    metavar="FILE",
    help="Prices of systems, as TOML: the cheapest is first then, unless --by says otherwise.",
)
@click.option(
    "--accuracies",
    type=_file,
    metavar="FILE",
    help="Accuracies of the MODELs, as TOML: they are alternatives for one task then.",
)
@click.option(
    "--min-accuracy",
    type=float,
    metavar="NUMBER",
    help="Minimum accuracy, in the unit of the file.",
)
@click.option(
    "--scenario",
    type=click.Choice([each.value for each in Scenario]),
    help="Compare instances under a load, as 'dlbricks run --scenario' measured it or predicted. "
    "Latency is the scenario's percentile then.",
)
@measuring.predictor_option
@options.load_options
@measuring.answer_options
@options.result_options
def command(
    models: tuple[str, ...],
    max_latency_ms: float | None,
    required: tuple[str, ...],
    by: str | None,
    on: tuple[str, ...],
    backends: tuple[str, ...],
    prices: Path | None,
    accuracies: Path | None,
    min_accuracy: float | None,
    scenario: str | None,
    predictor: str | None,
    store: str | None,
    **values: Any,
) -> int:
    """Tell which system, and which model, is fastest, cheapest or needs least. Runs nothing.

    Systems, frameworks and threads are those of the store. A model that was not measured there
    is predicted. With --prompt or --generate, language models are compared by the total time of
    their answer, which is its latency then. With --scenario, places are compared with each
    number of instances that fits there. Exit status 3: the latency of a model, or a quantity that
    --require or --by names, is unknown in some place, which is reported.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    load = given.load_options_of(values)
    asked = given.answer_of(values)
    workload = asked.workloads[0] if asked else None
    priced = Prices.read(prices) if prices else None
    load_of = None if scenario is None else Scenario(scenario)
    wanted = Wanted(
        max_latency_ms=max_latency_ms,
        min_accuracy=min_accuracy,
        prices=priced,
        accuracies=Accuracies.read(accuracies) if accuracies else None,
        batch=load.batch or 1,
        requirements=[Requirement.read(text) for text in required],
        by=None if by is None else order_by(by, priced, workload, load_of),
        workload=workload,
        scenario=load_of,
    )
    named = PREDICTOR if predictor is None else predictor
    with output.progress() as progress, ResultStore.open(store, writes=False) as opened:
        predicting = None if named == NO_PREDICTOR else named
        where = places(
            opened,
            on,
            backends,
            wanted.probes,
            under_load=load_of is not None,
            predicts=predicting is not None,
        )
        loaded = load_asked(models, asked, load, progress, given.import_settings_of(values))
        jobs = jobs_of(loaded, workload)
        advice = advise(jobs, where, wanted, opened, progress, predicting)
    advice = replace(advice, unread=loaded.failures)
    print_advice(output.console, advice)
    output.write_json(advice_data(advice))
    output.write_html(lambda: report.advice_page(advice))
    return EXIT_PARTIAL if advice.failures or advice.unread else 0
