"""``dlbricks show repeats``: how layers repeat within and across models."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.analysis import analyze
from dlbricks_core.commands.options import reading
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.importers.models import load_models
from dlbricks_core.report import analysis_data, print_analysis, print_failures


@click.command("analyze", cls=Concise)
@options.models_argument
@options.load_options
@options.json_option
@options.html_option
@options.table_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Show how layers repeat within and across models; runs nothing.

    Unique layers of each model and over all, operator types of the repeated layers, Jaccard
    similarity of the models' sets of layers, floating-point operations and bytes.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    with output.progress() as progress:
        loaded = load_models(
            models, reading.load_options_of(values), progress, reading.import_settings_of(values)
        )
        analysis = analyze(loaded.models)
    print_analysis(output.console, analysis)
    print_failures(output.console, loaded.failures)
    output.write_json(analysis_data(analysis, loaded.failures))
    output.write_html(lambda: report.analysis_page(analysis, loaded.failures))
    return EXIT_PARTIAL if loaded.failures else 0
