"""``dlbricks machine survey``: measurements for estimates of other models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import SETUP
from dlbricks_core.commands.options.settings import options as settings
from dlbricks_core.figures.precision import SURVEY_S
from dlbricks_survey.job import PackJob, SurveyJob
from dlbricks_survey.networks import weights
from dlbricks_survey.report import packed_data, print_packed, print_survey, survey_data

survey_options = settings(
    *(*SETUP, "threads", "budget_s", "seed"),
    backend={"required": False},
    budget_s={
        "help": "Time after which no further network is started (60s, 5m).",
        "default": "",
        "value": f"{SURVEY_S:g}s",
    },
    seed={"help": "Seed of networks, weights and inputs."},
)


@click.command("survey", cls=Concise)
@shared.models_argument
@survey_options
@shared.load_and_run_options
@click.option(
    "--family",
    "families",
    metavar="NAME",
    type=click.Choice(sorted(weights())),
    multiple=True,
    help="Only networks of this family (half_floats), and only bricks of models that are named. "
    "May be given more than once.  [default: all families]",
)
@click.option(
    "--pack",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Time nothing. Write the store's measurements to files, one for each system, backend and "
    "number of threads.",
)
@click.option(
    "--extend",
    is_flag=True,
    help="With --pack: add the installed atlas's measurements of the same system and setup.",
)
@shared.store_option
@shared.json_option
@shared.table_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Time networks from which latencies of others are predicted.

    The networks are single operators with the shapes of real models, and bricks of MODELs: by
    default, of all models in the installed collections. The first
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
