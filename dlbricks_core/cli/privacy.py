"""``dlbricks privacy``: shows what an attacker can learn from a private suite."""

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
    help="Model or collection that attackers know. May be given more than once.  [default: onnx:]",
)
@options.json_option
@options.quiet_options
def command(folder: Path, key: Path, published: tuple[str, ...], **values: Any) -> int:
    """Tell what an attacker learns from the private suite in FOLDER.

    Attackers know how suites are made, and they know published models, from which they make suites
    to learn from. The report gives the number of candidates that are left for your model, the
    accuracy of telling decoys from true bricks, and the bricks that stand out.
    """
    output = Output(values)
    with output.progress() as progress:
        found = privacy(folder, key, published_models(published, progress), progress)
    print_privacy(output.console, found)
    output.write_json(privacy_data(found))
    return 0
