"""``dlbricks calibrate``: fits a composer's numbers to this system."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import fitting_data, print_fitting
from dlbricks_core.report.probes import print_probing, probing_data
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import calibrate, forget_calibration, load_models
from dlbricks_core.workflows.calibrate import CALIBRATION_SET
from dlbricks_core.workflows.loading import LoadedModels
from dlbricks_core.workflows.probes import RUNS, probe

_NOT_FOR_PROBES = {
    "forget": "--forget",
    "precision": "--precision",
    "budget_s": "--budget",
    "composer": "--composer",
    "granularity": "-G",
    "strategy": "--split",
}
"""Options that do not apply to probes, which run a fixed number of times and are cut in a fixed
way.
"""


@click.command("calibrate")
@options.models_argument
@measuring.estimate_options
@measuring.timing_options
@click.option(
    "--probes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Fit nothing: time so many networks, those that tell most about this system, so that "
    f"latencies are predicted better.  [{RUNS} runs of each]",
)
@click.option("--forget", is_flag=True, help="Remove the stored calibration, and fit nothing.")
@options.store_option
@options.json_option
@options.quiet_options
def command(
    models: tuple[str, ...],
    store: str | None,
    *,
    probes: int | None,
    forget: bool,
    **values: Any,
) -> int:
    """Fit a composer's parameters to this system, or with --probes the predictions.

    Times MODELs, the networks of the onnx package unless others are named, and all of their
    bricks in the same rounds. What is fitted decides how wide the intervals of estimates are;
    with the composer 'similar' also what a timed brick tells about others. It is stored with
    what it rests on, and used by estimates of other models from then on. Exit status 3: a
    network could not be timed; it is named, and left out.

    With --probes, NUMBER small networks are timed instead, whose latencies tell most about those
    of MODELs, or of all kinds of networks. Whatever is predicted for this system rests on them
    from then on.
    """
    output = Output(values)
    if probes is not None:
        return _probe(models, probes, store, {**values, "forget": forget}, output)
    load = given.load_options_of(values)
    cutting = given.cut_options_of(values)
    measuring = given.request_of(values)
    if forget:
        if models:
            raise click.UsageError("--forget fits nothing: leave out the MODELs.")
        with ResultStore.open(store) as opened:
            known = forget_calibration(cutting, measuring, opened)
        output.console.print("Forgotten." if known else "There was no such calibration.")
        return 0
    with output.progress() as progress, ResultStore.open(store) as opened:
        loaded = load_models(
            models or CALIBRATION_SET, load, progress, given.import_settings_of(values)
        )
        fitting = calibrate(loaded.models, cutting, measuring, opened, progress)
    fitting = fitting.lacking(loaded.failures)
    print_fitting(output.console, fitting)
    output.write_json(fitting_data(fitting, load))
    complete = not (fitting.evaluation.left_out or fitting.evaluation.result.failures)
    return 0 if complete else EXIT_PARTIAL


def _probe(
    models: tuple[str, ...], number: int, store: str | None, values: dict[str, Any], output: Output
) -> int:
    for name, option in _NOT_FOR_PROBES.items():
        if values[name]:
            raise click.UsageError(f"{option} is not for --probes.")
    request = given.request_of({**values, "runs": values["runs"] or RUNS})
    load = given.load_options_of(values)
    loaded = LoadedModels([], [])
    with output.progress() as progress, ResultStore.open(store) as opened:
        if models:
            loaded = load_models(models, load, progress, given.import_settings_of(values))
        probing = probe(loaded.models, number, request, opened, progress)
    print_probing(output.console, probing, loaded.failures)
    data = probing_data(probing, loaded.failures)
    output.write_json(data)
    return EXIT_PARTIAL if data["failures"] else 0
