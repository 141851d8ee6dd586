"""``dlbricks privacy``: what an attacker learns from a private suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.report.privacy import print_privacy, privacy_data
from dlbricks_core.workflows.privacy import privacy
from dlbricks_core.workflows.private import published_models


@click.command("privacy")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    required=True,
    help="Key of the suite.",
)
@click.option(
    "--published",
    metavar="MODEL",
    multiple=True,
    help="Model or collection that the attacker knows. May be given more than once.  "
    "[default: onnx:]",
)
@options.json_option
@options.quiet_options
def command(folder: Path, key: Path, published: tuple[str, ...], **values: Any) -> int:
    """Tell what an attacker learns from the private suite in FOLDER.

    He knows how suites are made and what is published, and learns from suites that he makes of
    published models himself. The report tells how many candidates are left for your model, how
    well decoys are told from true bricks, and which bricks stand out.
    """
    output = Output(values)
    with output.progress() as progress:
        found = privacy(folder, key, published_models(published, progress), progress)
    print_privacy(output.console, found)
    output.write_json(privacy_data(found))
    return 0
