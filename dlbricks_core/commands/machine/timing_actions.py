"""``dlbricks machine calibrate`` and ``survey``: measurements for estimates of other models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.machine.calibration import (
    fitting_data,
    print_fitting,
    print_probing,
    probing_data,
)
from dlbricks_core.commands.machine.job import (
    CalibrateJob,
    ForgetJob,
    PackJob,
    ProbeJob,
    SurveyJob,
)
from dlbricks_core.commands.machine.survey_report import (
    packed_data,
    print_packed,
    print_survey,
    survey_data,
)
from dlbricks_core.commands.options import given, measuring
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.estimation.characterization import RUNS as PROBE_RUNS
from dlbricks_core.survey import weights


@click.command("calibrate", cls=Concise)
@options.models_argument
@measuring.estimate_options
@measuring.timing_options
@click.option(
    "--probes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Fit nothing: time the networks of --rates, then so many that tell most about this "
    f"system, so that latencies are predicted better.  [{PROBE_RUNS} runs of each]",
)
@click.option(
    "--rates",
    is_flag=True,
    help="Fit nothing: time the fixed networks that show what this machine does in a second, so "
    "that latencies are predicted better.",
)
@click.option("--forget", is_flag=True, help="Remove the stored calibration, and fit nothing.")
@options.store_option
@options.json_option
@options.table_options
def calibrate_command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Fit a composer's parameters to this system, or with --rates the predictions.

    Times MODELs, the networks of the onnx package unless others are named, and all of their
    bricks in the same rounds. The fitted numbers decide how wide the intervals of estimates are;
    with the composer 'similar' also how latencies of other bricks are derived from a timed one.
    They are stored with the networks behind them, and used by later estimates of other models. Exit
    status 3: a network could not be timed; it is named, and left out.

    With --rates, small networks are timed instead, the same on all machines: in about two seconds
    they show how fast this machine computes and moves data inside the framework. With --probes,
    NUMBER further networks are timed, which narrow the predictions of MODELs, or of all kinds of
    networks, most. All later predictions for this system use them.
    """
    output = Output(values)
    if values["forget"]:
        if values["json_path"] is not None:
            raise click.UsageError("--forget writes no JSON: leave out --json.")
        known = given.job_of(ForgetJob, models, values, "--forget fits nothing").run(store)
        output.console.print("Forgotten." if known else "No calibration was stored.")
        return 0
    if values["probes"] is not None or values["rates"]:
        mode = "--rates" if values["probes"] is None else "--probes"
        job = given.job_of(ProbeJob, models, values, f"{mode} fits nothing")
        return _probe(job, store, output)
    calibration = given.job_of(CalibrateJob, models, values)
    with output.progress() as progress:
        fitting = calibration.run(store, progress)
    print_fitting(output.console, fitting)
    output.write_json(fitting_data(fitting, calibration.models.options))
    complete = fitting.evaluation.result.is_sound and not fitting.evaluation.left_out
    return 0 if complete else EXIT_PARTIAL


def _probe(job: ProbeJob, store: str | None, output: Output) -> int:
    with output.progress() as progress:
        found = job.run(store, progress)
    print_probing(output.console, found.probing, found.failures)
    data = probing_data(found.probing, found.failures)
    output.write_json(data)
    return EXIT_PARTIAL if data["failures"] else 0


@click.command("survey", cls=Concise)
@options.models_argument
@measuring.survey_options
@options.load_options
@click.option(
    "--family",
    "families",
    metavar="NAME",
    type=click.Choice(sorted(weights())),
    multiple=True,
    help="Draw networks of this family only (half_floats), and cut no models but those named. "
    "May be given more than once.  [default: all families]",
)
@click.option(
    "--pack",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Time nothing: write what the store knows, a file for each system, backend and number "
    "of threads.",
)
@click.option(
    "--extend",
    is_flag=True,
    help="With --pack: add what the installed atlas holds of the same system and setup.",
)
@options.store_option
@options.json_option
@options.table_options
def survey_command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Time networks from which latencies of others are predicted.

    The networks are operators over the shapes that real models have, and bricks of MODELs,
    which are all models of the collections that are installed unless others are named. The first
    networks are the same on every machine; later networks are chosen where predictions err. Run it
    again, and it goes on. Exit status 3: a network could not be timed; it is named.
    """
    output = Output(values)
    if values["folder"] is not None:
        packing = given.job_of(PackJob, models, values, "--pack times nothing")
        with output.progress() as progress:
            packed = packing.run(store, progress)
        print_packed(output.console, packed)
        output.write_json(packed_data(packed))
        return 0
    backend = given.backend_of(values)
    mode = "nothing is packed without --pack"
    job = given.job_of(SurveyJob, models, values, mode, backend=backend)
    with output.progress() as progress:
        surveyed = job.run(store, progress)
    print_survey(output.console, surveyed)
    output.write_json(survey_data(surveyed))
    return EXIT_PARTIAL if surveyed.failures or surveyed.unread else 0
