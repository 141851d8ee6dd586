"""``dlbricks analyze``: what models consist of and have in common."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.analysis import analyze
from dlbricks_core.cli import given, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import (
    analysis_data,
    failures_data,
    print_analysis,
    print_failures,
)
from dlbricks_core.workflows import load_models


@click.command("analyze")
@options.models_argument
@options.load_options
@options.json_option
@options.html_option
@options.quiet_options
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
            models,
            given.load_options_of(values),
            progress,
            given.import_settings_of(values),
        )
        analysis = analyze(loaded.models)
    print_analysis(output.console, analysis)
    print_failures(output.console, loaded.failures)
    output.write_json(analysis_data(analysis) | failures_data(loaded.failures))
    output.write_html(lambda: report.analysis_page(analysis, loaded.failures))
    return EXIT_PARTIAL if loaded.failures else 0
