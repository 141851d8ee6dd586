"""``dlbricks verify``: checks whether backends compute the same."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import (
    failures_data,
    print_failures,
    print_verification,
    verification_data,
)
from dlbricks_core.workflows import VerifyOptions, load_models, verify


@click.command("verify")
@options.models_argument
@measuring.verify_options
@options.load_options
@options.json_option
@options.quiet_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Run whole models on several frameworks and compare what they compute.

    All get the same random weights and inputs. Where the backends agree with each other and
    the ONNX reference does not, it says so, and what is known to be wrong there. Exit status
    3: something disagrees, is unsupported, or fails, be it the ONNX reference.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    load = given.load_options_of(values)
    backends = given.requests_of(values, fewest=1)
    how = VerifyOptions(values["seed"], values["tolerance"], values["reference_s"])
    with output.progress() as progress:
        loaded = load_models(models, load, progress, given.import_settings_of(values))
        verdicts = verify(loaded.models, backends, how, progress)
    print_verification(output.console, verdicts)
    print_failures(output.console, loaded.failures)
    output.write_json(verification_data(verdicts, how) | failures_data(loaded.failures))
    agree = all(each.agrees and not each.reference_failure for each in verdicts)
    return 0 if agree and not loaded.failures else EXIT_PARTIAL
