"""``dlbricks results pages``: writes the store as pages for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import Output
from dlbricks_core.importers.cache import kept_names
from dlbricks_core.store import ResultStore
from dlbricks_pages import pages
from dlbricks_pages.contents import check_number, read_atlas
from dlbricks_pages.estimates import with_composed, with_unmeasured


@click.command("pages", cls=Concise)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder for the pages. It is created, or replaced if it contains only such pages.",
)
@click.option(
    "--measured-only",
    is_flag=True,
    help="Show only measured values: compose and predict nothing. It is quicker.",
)
@click.option(
    "--hide-names",
    is_flag=True,
    help="Leave out the names of models: they may be names of your files.",
)
@shared.store_option
@shared.json_option
@shared.quiet_options
def command(
    folder: Path, store: str | None, *, measured_only: bool, hide_names: bool, **values: Any
) -> int:
    """Write the store as static pages, and open them from their folder.

    There is a page for each system and each model, one of the backends, and a table of every
    value that can be sorted and filtered. Models without a timing are composed from their bricks,
    or else predicted, and marked as such. The pages need neither a server nor a network.
    Nothing is timed.
    """
    output = Output({**values, "folder": folder})
    pages.check_site(folder)
    with output.progress() as progress, ResultStore.open(store, writes=False) as opened:
        atlas = read_atlas(opened, progress)
        check_number(len(atlas.models) + len(atlas.machines))
        if not measured_only:
            atlas = with_composed(atlas, opened, progress)
            atlas = with_unmeasured(atlas, opened, progress)
        atlas = atlas.named(None if hide_names else kept_names(atlas.models))
        progress.stage("Writing the pages")
        files = pages.write_site(pages.site(atlas), folder)
    pages.print_atlas(output.console, atlas, folder, files)
    output.write_json(pages.atlas_data(atlas, folder, files))
    return 0
