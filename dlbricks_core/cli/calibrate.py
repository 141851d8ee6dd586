"""``dlbricks calibrate``: fits a composer's numbers to this system."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import fitting_data, print_fitting
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import calibrate, forget_calibration, load_models
from dlbricks_core.workflows.calibrate import CALIBRATION_SET


@click.command("calibrate")
@options.models_argument
@options.estimate_options
@options.timing_options
@click.option("--forget", is_flag=True, help="Remove the stored calibration, and fit nothing.")
@options.store_option
@options.json_option
@options.quiet_options
def command(models: tuple[str, ...], store: str | None, *, forget: bool, **values: Any) -> int:
    """Fit a composer's few numbers to this system.

    Times MODELs, the networks of the onnx package unless others are named, and all of their
    bricks in the same rounds. What is fitted decides how wide the intervals of estimates are;
    with the composer 'similar' also what a timed brick tells about others. It is stored with
    what it rests on, and used by estimates of other models from then on. Exit status 3: a
    network could not be timed; it is named, and left out.
    """
    output = Output(values)
    load = options.load_options_of(values)
    cutting = options.cut_options_of(values)
    measuring = options.request_of(values)
    if forget:
        if models:
            raise click.UsageError("--forget fits nothing: leave out the MODELs.")
        with ResultStore.open(store) as opened:
            known = forget_calibration(cutting, measuring, opened)
        output.console.print("Forgotten." if known else "There was no such calibration.")
        return 0
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_models(
            models or CALIBRATION_SET, load, progress, options.import_settings_of(values)
        )
        fitting = calibrate(loaded.models, cutting, measuring, opened, progress)
    fitting = fitting.lacking(loaded.failures)
    print_fitting(output.console, fitting)
    output.write_json(fitting_data(fitting, load))
    complete = not (fitting.evaluation.left_out or fitting.evaluation.result.failures)
    return 0 if complete else EXIT_PARTIAL
