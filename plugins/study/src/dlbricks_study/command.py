"""``dlbricks study``: the paper's evaluation for any models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.kinds import GRANULARITIES
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import BESIDE_A_FILE, READING, SETUP, TIMED
from dlbricks_core.commands.options.settings import options as options_of
from dlbricks_core.errors import DLBricksError, reason
from dlbricks_study.experiments import QUICK_RUNS, RUNS
from dlbricks_study.job import StudyJob, StudyReportJob
from dlbricks_study.page import study_page
from dlbricks_study.report import print_study, write_study


@click.command("study", cls=Concise)
@shared.models_argument
@click.option("-G", "--granularities", type=GRANULARITIES, metavar="LIST", default="1-10",
              show_default=True, help="Maximum number of layers in a brick: several numbers, as "
              "1-10 or 1,3,5.")  # fmt: skip
@click.option("--quick", is_flag=True, help=f"Only {QUICK_RUNS} runs of each network.")
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path), default=Path("study"),
              show_default=True,
              help="Folder for the report. It is created if it does not exist.")  # fmt: skip
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Measure nothing. Write the report of an earlier study from its study.json, or from a "
    "file with one such object in each line (.xz is unpacked). Each of several studies gets a "
    "folder with its number.",
)
@options_of(
    *(*SETUP, "threads", *TIMED),
    backend={"required": False},
    runs={"default": f"{RUNS}; 100 in the protocol paper"},
)
@options_of(*READING, **BESIDE_A_FILE)
@shared.timing_options
@shared.store_option
@shared.json_option
@shared.table_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Repeat the evaluation of the DLBricks paper for any models: a report with all its plots.

    Times the whole models, their bricks at every granularity, and the default composer's bricks in
    the same rounds. Writes index.html, study.json and a CSV file for each figure. All measurements
    are in the store: an interrupted study goes on when it is run again. Exit status 3: something
    failed or a model was left out; it is named.
    """
    if values["source"] is not None:
        job = given.job_of(StudyReportJob, models, values, "--from measures nothing")
        return _rewrite(job, Output(values))
    backend = given.backend_of(values)
    making = given.job_of(StudyJob, models, values, backend=backend)
    output = Output(values)
    with output.progress() as progress:
        made = making.run(store, progress)
        progress.stage("Writing the report")
        write_study(made.record, study_page(made.record), made.folder)
    print_study(output.console, made.record, made.folder)
    output.write_json(dict(made.record.data))
    return 0 if made.is_complete else EXIT_PARTIAL


def _rewrite(job: StudyReportJob, output: Output) -> int:
    """Writes the reports of all studies in a file."""
    found = job.run()
    if click.get_current_context().params["json_path"] and len(found) > 1:
        raise click.UsageError(f"--json takes one study; {job.source} holds {len(found)}.")
    for each in found:
        try:
            write_study(each.record, study_page(each.record), each.folder)
            print_study(output.console, each.record, each.folder)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DLBricksError(
                f"{job.source} holds a study whose values do not fit together ({reason(error)})",
                hint="Use the DLBricks that wrote it, or make the study again.",
            ) from error
        output.write_json(dict(each.record.data))
    return 0
