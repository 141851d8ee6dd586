"""``dlbricks private``: packs secret models, estimates them, and attacks suites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.estimate.data import run_data
from dlbricks_core.commands.estimate.terminal import print_run
from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Group
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report.pages import ESTIMATE, page_of
from dlbricks_private import suites
from dlbricks_private.job import AttackJob, PrivateEstimateJob, PrivateGenerateJob
from dlbricks_private.report import print_privacy, print_suite, privacy_data, suite_data

_FILE = click.Path(path_type=Path, dir_okay=False)

_key_option = click.option(
    "--key", type=_FILE, metavar="FILE", required=True, help="Key of the suite."
)


@click.group("private", cls=Group)
def command() -> None:
    """Pack models that must stay secret, and estimate them.

    A private suite holds bricks of a model among decoys. Another machine times all of them
    ('dlbricks suite time'). The key, a file that stays with you, composes the model's estimate.
    """


@command.command("generate")
@shared.models_argument
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write to.",
)
@click.option(
    "--backend",
    metavar="NAME",
    help="Framework that the bricks are for.  [default: any]",
)
@click.option(
    "--decoys",
    type=click.IntRange(min=0),
    metavar="N",
    default=suites.DECOYS,
    show_default=True,
    help="Decoys for each brick.",
)
@click.option(
    "--decoys-from",
    metavar="MODEL",
    multiple=True,
    help="Model or collection that decoys come from. May be given more than once.  "
    "[default: onnx:]",
)
@click.option(
    "--key",
    type=_FILE,
    metavar="FILE",
    help="File for the key.  [default: beside FOLDER]",
)
@shared.cut_options
@shared.load_options_beside_a_file
@shared.json_option
@shared.quiet_options
def generate_command(models: tuple[str, ...], **values: Any) -> int:
    """Pack bricks of MODELs among decoys, and write the key.

    With --backend, the bricks are those of one framework. Without it, they suit any framework, and
    estimates are less accurate. Time the folder on any machine: 'dlbricks suite time FOLDER
    --backend NAME --results FILE'. 'dlbricks private attack' shows what an attacker can learn from
    it.
    """
    output = Output(values)
    job = given.job_of(PrivateGenerateJob, models, values)
    with output.progress() as progress:
        done = job.run(progress)
    written, failures = done.result, [*done.failures, *done.result.suite.omitted]
    print_suite(output.console, written.suite, written.hidden, job.folder, written.key, failures)
    output.write_json(suite_data(written.suite, written.hidden, job.folder, failures))
    return EXIT_PARTIAL if failures else 0


@command.command("estimate")
@_key_option
@click.option(
    "--results",
    type=_FILE,
    metavar="FILE",
    multiple=True,
    required=True,
    help="File that 'dlbricks suite time --results' wrote. May be given more than once.",
)
@shared.quantity_option
@shared.setup_options
@click.option(
    "--system",
    metavar="SYSTEM",
    help="Machine to estimate for, where the results are of several: its name, or the start of its "
    "fingerprint.",
)
@option("predictor", default="none")
@shared.json_option
@shared.html_option
@shared.quiet_options
def estimate_command(**values: Any) -> int:
    """Estimate the models of a private suite from its results; runs nothing.

    The key has the models, so none is named.
    """
    output = Output(values)
    job = given.job_of(PrivateEstimateJob, (), values)
    with output.progress():
        done = job.run()
    result, load = done.result, LoadOptions()
    print_run(output.console, result)
    output.write_record(lambda: run_data(result, load, done.invocation))
    output.write_html(lambda: page_of(ESTIMATE, result, load))
    return EXIT_PARTIAL if result.failures else 0


@command.command("attack")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@_key_option
@click.option(
    "--published",
    metavar="MODEL",
    multiple=True,
    help="Model or collection that attackers know. May be given more than once.  [default: onnx:]",
)
@shared.json_option
@shared.table_options
def attack_command(**values: Any) -> int:
    """Show what an attacker learns from the private suite in FOLDER.

    Attackers know how suites are made, and train on suites of published models. The report has the
    remaining number of candidates for your model, the accuracy of separating decoys from true
    bricks, and conspicuous bricks.
    """
    output = Output(values)
    job = given.job_of(AttackJob, (), values)
    with output.progress() as progress:
        found = job.run(progress)
    print_privacy(output.console, found)
    output.write_json(privacy_data(found))
    return 0
