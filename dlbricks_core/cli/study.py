"""``dlbricks study``: the paper's evaluation for any models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import (
    StudyRecord,
    print_study,
    read_studies,
    study_complete,
    study_data,
    write_study,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import load_models, study
from dlbricks_core.workflows.study import QUICK_RUNS, RUNS


@click.command("study")
@options.models_argument
@options.granularities_option
@click.option("--quick", is_flag=True, help=f"Only {QUICK_RUNS} runs of each network.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("study"),
    show_default=True,
    help="Folder for the report. It is created if it does not exist.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report of a study that was made before, from its study.json or from a file "
    "with one such object a line (.xz is unpacked). Measures nothing; of several studies each "
    "gets a folder with its number.",
)
@measuring.fixed_runs_options(f"{RUNS}; 100 in the protocol paper")
@options.load_options
@measuring.timing_options
@options.store_option
@options.json_option
@options.quiet_options
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

    Times the whole models and their bricks at every granularity, and what the default
    composer wants, in the same rounds. Writes index.html, study.json and a CSV file for each
    figure. What was measured is in the store: an interrupted study goes on when it is run
    again. Exit status 3: something failed or a model was left out; it is named.
    """
    if source is not None:
        return _rewrite(source, folder, models, values)
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    if not values["backend"]:
        raise click.UsageError("Missing option '--backend'.")
    if quick and values["runs"]:
        raise click.UsageError("--quick and --runs contradict each other. Leave one of them out.")
    output = Output(values)
    load = given.load_options_of(values)
    request = given.request_of({**values, "runs": QUICK_RUNS} if quick else values)
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_models(models, load, progress, given.import_settings_of(values))
        found = study(loaded.models, granularities, request, opened, progress)
        found = replace(found, unread=loaded.failures)
        progress.stage("Writing the report")
        data = study_data(found, load)
        record = StudyRecord(data)
        write_study(record, report.study_page(record), folder)
    print_study(output.console, record, folder)
    output.write_json(data)
    return 0 if study_complete(found) else EXIT_PARTIAL


def _rewrite(source: Path, folder: Path, models: tuple[str, ...], values: dict[str, Any]) -> int:
    """Writes the reports of all studies in a file."""
    if models or values["backend"]:
        raise click.UsageError("--from takes neither a MODEL nor --backend: it measures nothing.")
    output = Output(values)
    found = read_studies(source)
    if values["json_path"] and len(found) > 1:
        raise click.UsageError(f"--json takes one study; {source} holds {len(found)}.")
    for number, record in enumerate(found, 1):
        place = folder / str(number) if len(found) > 1 else folder
        write_study(record, report.study_page(record), place)
        print_study(output.console, record, place)
        output.write_json(dict(record.data))
    return 0
