"""Options that several commands share: on models, files and output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dlbricks_core.bricks import STRATEGIES
from dlbricks_core.cli.kinds import GRANULARITIES, POSITIVE, TIME
from dlbricks_core.errors import DLBricksError
from dlbricks_core.harmless import without_secrets
from dlbricks_core.passes.convert import CONVERSIONS
from dlbricks_core.wording import argument

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def group(*decorators: Callable[[Any], Any]) -> Callable[[CommandT], CommandT]:
    """A decorator that adds several options in a given order."""

    def decorate(command: CommandT) -> CommandT:
        return functools.reduce(lambda f, option: option(f), reversed(decorators), command)

    return decorate


def time_option(
    flag: str,
    help_text: str,
    default: str | None = None,
    kind: Callable[[str], float] = TIME,
) -> Callable[[CommandT], CommandT]:
    """Option for a time. Its value, in seconds, has the flag's name with the suffix ``_s``."""
    return click.option(
        flag,
        f"{flag.lstrip('-')}_s",
        type=kind,
        metavar="TIME",
        default=default,
        show_default=default is not None,
        help=help_text,
    )


def _models(_context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
    """The MODELs, none of which is the URL of a database: reports show models as they are named."""
    for text in given:
        if (shown := without_secrets(text)) != text:
            hint = f"Name a database with {argument('store')}."
            raise DLBricksError(f"{shown} is not a model", hint=hint)
    return given


models_argument = click.argument("models", metavar="[MODEL]...", nargs=-1, callback=_models)

TIMEOUT_S = 120.0
"""Default maximum time in seconds to load a network, or to run it once."""

IMPORT_TIMEOUT_S = 600.0
"""Default maximum time in seconds to import a model: exporting a large model takes minutes."""

timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum time in seconds to import a model, and to load a network or to run it once.  "
    f"[default: {IMPORT_TIMEOUT_S:g} and {TIMEOUT_S:g}]",
)

load_options = group(
    click.option("--batch", type=POSITIVE, help="Size of dynamic batch axes."),
    click.option(
        "--dim",
        "dims",
        metavar="NAME=SIZE",
        multiple=True,
        help="Size of a dynamic dimension (seq=128, data.2=224), or an input's whole shape "
        "(data=1x3x224x224), of all models that have it, or of one (net:data=1x3x224x224). "
        "May be given more than once.",
    ),
    click.option(
        "--value",
        "fixed",
        metavar="INPUT=NUMBER",
        multiple=True,
        help="Constant value of an input (sample_rate=16000): branches and sizes that depend on "
        "it are known then. May be given more than once.",
    ),
    click.option(
        "--fold-batchnorm",
        is_flag=True,
        help="Fold BatchNormalization into the layer before it.",
    ),
    click.option(
        "--dtype",
        metavar="NAME",
        help=f"Convert models to another element type: {', '.join(sorted(CONVERSIONS))}. Layers "
        "that ONNX does not define in it keep float32.",
    ),
    timeout_option,
    click.option(
        "--reimport", is_flag=True, help="Import models again, even if they are in the cache."
    ),
)

cut_options = group(
    click.option(
        "-G",
        "--granularity",
        type=POSITIVE,
        help="Maximum number of layers in a brick. Selects the paper's sum of chains "
        "unless a composer is named.",
    ),
    click.option(
        "--split",
        "strategy",
        type=click.Choice(list(STRATEGIES)),
        help="How models are cut.",
    ),
)

granularities_option = click.option(
    "-G",
    "--granularities",
    type=GRANULARITIES,
    metavar="LIST",
    default="1-10",
    show_default=True,
    help="Maximum number of layers in a brick: several numbers, as 1-10 or 1,3,5.",
)

key_option = click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Key of a private suite, which 'dlbricks generate --private' wrote.",
)

store_option = click.option(
    "--store",
    metavar="PATH_OR_URL",
    help="Result store: a path, or the URL of a PostgreSQL database "
    "(postgresql+psycopg://user@host/database).  [default: a file in the user's data folder]",
)
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


def _remember(context: click.Context, _option: click.Parameter, verbose: bool) -> bool:
    """Keeps the option for error messages, which are printed outside of the command."""
    context.ensure_object(dict)["verbose"] = verbose
    return verbose


quiet_options = group(
    click.option(
        "-v", "--verbose", is_flag=True, callback=_remember, help="Print more; show tracebacks."
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)
result_options = group(store_option, json_option, html_option, quiet_options)
