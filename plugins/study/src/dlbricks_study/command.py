"""``dlbricks study``: the paper's evaluation for any models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given, measuring, reading
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.kinds import GRANULARITIES
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import SETUP, TIMED
from dlbricks_core.commands.options.settings import options as options_of
from dlbricks_core.errors import DLBricksError, reason
from dlbricks_core.importers.models import load_models
from dlbricks_core.preferences import preferred
from dlbricks_core.store import ResultStore
from dlbricks_study.data import study_data
from dlbricks_study.experiments import QUICK_RUNS, RUNS, study
from dlbricks_study.page import study_page
from dlbricks_study.record import StudyRecord, read_studies
from dlbricks_study.record import complete as study_complete
from dlbricks_study.report import print_study, write_study


@click.command("study", cls=Concise)
@options.models_argument
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
    help="Write the report of a study that was made before, from its study.json or from a file "
    "with one such object a line (.xz is unpacked). Measures nothing; of several studies each "
    "gets a folder with its number.",
)
@options_of(
    *(*SETUP, "threads", *TIMED),
    backend={"required": False},
    runs={"default": f"{RUNS}; 100 in the protocol paper"},
)
@options.load_options_beside_a_file
@measuring.timing_options
@options.store_option
@options.json_option
@options.table_options
def command(
    models: tuple[str, ...],
    granularities: tuple[int, ...],
    folder: Path,
    source: Path | None,
    store: str | None,
    *,
    quick: bool,
    **values: Any,
) -> int:
    """Repeat the evaluation of the DLBricks paper for any models: a report with all its plots.

    Times the whole models, their bricks at every granularity, and the default composer's bricks in
    the same rounds. Writes index.html, study.json and a CSV file for each figure. All measurements
    are in the store: an interrupted study goes on when it is run again. Exit status 3: something
    failed or a model was left out; it is named.
    """
    if source is not None:
        return _rewrite(source, folder, models, values)
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    values["backend"] = values["backend"] or preferred("backend")
    if not values["backend"]:
        raise click.UsageError("Missing option '--backend'.")
    if quick and values["runs"]:
        raise click.UsageError("--quick and --runs contradict each other. Leave one of them out.")
    output = Output(values)
    load = reading.load_options_of(values)
    request = given.request_of({**values, "runs": QUICK_RUNS} if quick else values)
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_models(models, load, progress, reading.import_settings_of(values))
        found = study(loaded.models, granularities, request, opened, progress)
        found = replace(found, unread=loaded.failures)
        progress.stage("Writing the report")
        data = study_data(found, load)
        record = StudyRecord(data)
        write_study(record, study_page(record), folder)
    print_study(output.console, record, folder)
    output.write_json(data)
    return 0 if study_complete(found) else EXIT_PARTIAL


def _rewrite(source: Path, folder: Path, models: tuple[str, ...], values: dict[str, Any]) -> int:
    """Writes the reports of all studies in a file."""
    if models or values["backend"]:
        raise click.UsageError("--from measures nothing: leave out MODEL and --backend.")
    output = Output(values)
    found = read_studies(source)
    if values["json_path"] and len(found) > 1:
        raise click.UsageError(f"--json takes one study; {source} holds {len(found)}.")
    for number, record in enumerate(found, 1):
        place = folder / str(number) if len(found) > 1 else folder
        try:
            write_study(record, study_page(record), place)
            print_study(output.console, record, place)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DLBricksError(
                f"{source} holds a study whose values do not fit together ({reason(error)})",
                hint="Use the DLBricks that wrote it, or make the study again.",
            ) from error
        output.write_json(dict(record.data))
    return 0
