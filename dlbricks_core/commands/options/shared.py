"""Options that several commands share: on models, measurements, files and output."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import settings
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.defaults import FINEST, USUAL
from dlbricks_core.figures.precision import PRECISION
from dlbricks_core.preferences import FORMATS, TEXT, preferred, variable
from dlbricks_core.sanitize import without_secrets
from dlbricks_core.wording import argument


def _models(_context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
    """The MODELs, none of which is the URL of a database: reports show models as they are named."""
    for text in given:
        if (shown := without_secrets(text)) != text:
            hint = f"Name a database with {argument('store')}."
            raise DLBricksError(f"{shown} is not a model", hint=hint)
    return given


models_argument = click.argument("models", metavar="[MODEL]...", nargs=-1, callback=_models)

timeout_option = settings.options("timeout_s", **settings.RUN)
load_options = settings.options(*settings.READING, **settings.IMPORTED)
load_options_beside_a_file = settings.options(
    *settings.READING, **settings.IMPORTED, **settings.BESIDE_A_FILE
)
load_and_run_options = settings.options(*settings.READING)
cut_options = settings.options(*settings.CUT)

answer_options = settings.options(*settings.ANSWER)
sizes_options = settings.options(*settings.ANSWER, "pictures", "sweeps")
quantity_option = settings.option("quantity")
predictor_option = settings.option("predictor")
condition_option = settings.option("condition")

_MEASURED = (*settings.SETUP, "threads", *settings.TIMED, *settings.PRECISE)
_CUT_AND_READ = (*settings.CUT, "composer", *settings.READING)
setup_options = settings.options(*settings.SETUP, "threads", *settings.TIMED)
measure_options = settings.options(*_MEASURED)
timing_options = settings.options(*settings.REPEATING)
estimate_options = settings.options(*_MEASURED, *_CUT_AND_READ)
estimate_options_beside_a_file = settings.options(
    *_MEASURED, *_CUT_AND_READ, **settings.BESIDE_A_FILE
)
evaluate_options = settings.options(
    *(*_MEASURED, "condition", *_CUT_AND_READ), precision={"default": settings.COMPARED_PRECISION}
)
run_options = settings.options(
    *(*settings.SETUP, "threads_by_phase", *settings.TIMED, *settings.PRECISE, *_CUT_AND_READ),
    precision={
        "default": f"{USUAL:.0%}; {FINEST:.0%} with --budget; {PRECISION:.0%} with an option that "
        "times all bricks: a composer, -G, --split, another protocol or quantity"
    },
)

OF_EACH = {
    "metavar": "NAME.KEY=VALUE",
    "help": "Setting of one of the backends ('dlbricks list plugins' lists them).",
}

store_option = settings.option("store")
json_option = click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Write the results as JSON ('-' for standard output).",
)
html_option = click.option(
    "--html",
    "html_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a report with plots as one HTML file.",
)


table_format_option = click.option(
    "--format",
    "table_format",
    type=click.Choice(FORMATS),
    default=partial(preferred, "format"),
    help="Form of standard output; csv and markdown: tables alone, all other text goes to "
    f"standard error.  [default: {variable('format')}, or {TEXT}]",
)


def _remember(context: click.Context, _option: click.Parameter, verbose: bool) -> bool:
    """Keeps the option for error messages, which are printed outside of the command."""
    context.ensure_object(dict)["verbose"] = verbose
    return verbose


quiet_options = settings.group(
    click.option(
        "-v", "--verbose", is_flag=True, callback=_remember, help="Print more; show tracebacks."
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)
table_options = settings.group(table_format_option, quiet_options)
result_options = settings.group(store_option, json_option, html_option, table_options)
