"""``dlbricks generate``: a suite for another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import given, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report.generating import generated_data, print_generated
from dlbricks_core.suites import check_unused
from dlbricks_core.workflows import Request, generate, load_models
from dlbricks_core.workflows.generate import DECOYS
from dlbricks_core.workflows.private import (
    generate_private,
    key_beside,
    private_options,
    published_models,
)

_private_options = options.group(
    click.option(
        "--private", is_flag=True, help="Pack only bricks, hidden among decoys, and write a key."
    ),
    click.option(
        "--backend",
        metavar="NAME",
        help="Framework that private bricks are for.  [default: any]",
    ),
    click.option(
        "--decoys",
        type=click.IntRange(min=0),
        metavar="N",
        help=f"Decoys for each private brick.  [default: {DECOYS}]",
    ),
    click.option(
        "--decoys-from",
        metavar="MODEL",
        multiple=True,
        help="Model or collection that decoys come from. May be given more than once.  "
        "[default: onnx:]",
    ),
    click.option(
        "--key",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="File for the key of a private suite.  [default: beside FOLDER]",
    ),
)


@click.command("generate")
@options.models_argument
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write to.",
)
@options.cut_options
@options.load_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the weights.")  # fmt: skip
@_private_options
@options.json_option
@options.quiet_options
def command(
    models: tuple[str, ...],
    folder: Path,
    seed: int,
    private: bool,
    backend: str | None,
    decoys: int | None,
    decoys_from: tuple[str, ...],
    key: Path | None,
    **values: Any,
) -> int:
    """Pack what another machine needs to time MODELs, without their weights.

    The folder holds the structures of the MODELs and a manifest. Time it on any machine, with any
    framework: 'dlbricks bench FOLDER --backend NAME --results FILE'. Then estimate on yours:
    'dlbricks estimate MODEL... --backend NAME --results FILE'.

    With -G or --split, the folder holds the paper's bricks instead: ONNX files that tell neither
    which model they are from nor in which order they stand.

    With --private, the folder holds only bricks, hidden among decoys. The key, a file that stays
    with you, composes the model's estimate from them. Name the --backend that the bricks are for,
    or leave it out for bricks that suit any framework, less accurately. 'dlbricks privacy FOLDER
    --key FILE' shows what an attacker can learn; 'dlbricks estimate --key FILE --results FILE'
    composes the estimate.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    check_unused(folder)
    if not private and (backend or decoys is not None or decoys_from or key):
        raise click.UsageError("--backend, --decoys, --decoys-from and --key need --private.")
    asked = values["granularity"] is not None or values["strategy"] is not None
    cut = given.cut_options_of(values) if asked else None
    with output.progress() as progress:
        loaded = load_models(
            models,
            given.load_options_of(values),
            progress,
            given.import_settings_of(values),
        )
        hidden, keys = None, key or key_beside(folder)
        if private:
            number = DECOYS if decoys is None else decoys
            published = published_models(decoys_from, progress) if number else []
            written, hidden = generate_private(
                loaded.models,
                private_options(values["strategy"], values["granularity"]),
                Request.of(backend) if backend else None,
                published,
                number,
                folder,
                keys,
                progress,
            )
        else:
            written = generate(loaded.models, cut, folder, seed, progress)
    failures = [*loaded.failures, *written.omitted]
    print_generated(output.console, written, folder, failures, hidden, keys)
    output.write_json(generated_data(written, folder, failures, hidden))
    return EXIT_PARTIAL if failures else 0
