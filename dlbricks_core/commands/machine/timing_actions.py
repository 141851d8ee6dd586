"""``dlbricks machine calibrate`` and ``survey``: measurements for estimates of other models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dlbricks_core.commands.machine.calibration import (
    CALIBRATION_SET,
    calibrate,
    fitting_data,
    forget_calibration,
    print_fitting,
    print_probing,
    probing_data,
)
from dlbricks_core.commands.machine.survey_report import (
    packed_data,
    print_packed,
    print_survey,
    survey_data,
)
from dlbricks_core.commands.machine.surveying import RUNS, pack, survey
from dlbricks_core.commands.options import given, measuring, reading
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.spelling import option_of
from dlbricks_core.estimation.characterization import RUNS as PROBE_RUNS
from dlbricks_core.estimation.characterization import characterize
from dlbricks_core.estimation.rates import rated
from dlbricks_core.importers.models import LoadedModels, load_models
from dlbricks_core.measure.targets import Target
from dlbricks_core.preferences import preferred
from dlbricks_core.store import ResultStore
from dlbricks_core.survey import weights

#: Options that do not apply to probes, which run a fixed number of times and are cut in a fixed
#: way.
_NOT_FOR_PROBES = ("forget", "precision", "budget_s", "composer", "granularity", "split")


@click.command("calibrate", cls=Concise)
@options.models_argument
@measuring.estimate_options
@measuring.timing_options
@click.option(
    "--probes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Fit nothing: time so many networks, those that tell most about this system, so that "
    f"latencies are predicted better.  [{PROBE_RUNS} runs of each]",
)
@click.option(
    "--rates",
    is_flag=True,
    help="Fit nothing: time the fixed networks that show what this machine does in a second, so "
    "that latencies are predicted better. With --probes, before these.",
)
@click.option("--forget", is_flag=True, help="Remove the stored calibration, and fit nothing.")
@options.store_option
@options.json_option
@options.table_options
def calibrate_command(
    models: tuple[str, ...],
    store: str | None,
    *,
    probes: int | None,
    rates: bool,
    forget: bool,
    **values: Any,
) -> int:
    """Fit a composer's parameters to this system, or with --rates the predictions.

    Times MODELs, the networks of the onnx package unless others are named, and all of their
    bricks in the same rounds. What is fitted decides how wide the intervals of estimates are;
    with the composer 'similar' also what a timed brick tells about others. It is stored with
    what it rests on, and used by estimates of other models from then on. Exit status 3: a
    network could not be timed; it is named, and left out.

    With --rates, small networks are timed instead, the same on all machines: in about two seconds
    they show how fast this one computes and moves data inside the framework. With --probes, it is
    NUMBER networks whose latencies tell most about those of MODELs, or of all kinds of networks.
    Whatever is predicted for this system rests on them from then on.
    """
    output = Output(values)
    if probes is not None or rates:
        first = rated() if rates else {}
        return _probe(models, probes or 0, first, store, {**values, "forget": forget}, output)
    load = reading.load_options_of(values)
    cutting = reading.cut_options_of(values)
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
            models or CALIBRATION_SET, load, progress, reading.import_settings_of(values)
        )
        fitting = calibrate(loaded.models, cutting, measuring, opened, progress)
    fitting = fitting.lacking(loaded.failures)
    print_fitting(output.console, fitting)
    output.write_json(fitting_data(fitting, load))
    complete = fitting.evaluation.result.is_sound and not fitting.evaluation.left_out
    return 0 if complete else EXIT_PARTIAL


def _probe(
    models: tuple[str, ...],
    number: int,
    first: Mapping[str, Target],
    store: str | None,
    values: dict[str, Any],
    output: Output,
) -> int:
    for name in _NOT_FOR_PROBES:
        if values[name]:
            which = "--probes" if number else "--rates"
            raise click.UsageError(f"{option_of(name)} is not for {which}.")
    request = given.request_of({**values, "runs": values["runs"] or PROBE_RUNS})
    load = reading.load_options_of(values)
    loaded = LoadedModels([], [])
    with output.progress() as progress, ResultStore.open(store) as opened:
        if models:
            loaded = load_models(models, load, progress, reading.import_settings_of(values))
        probing = characterize(loaded.models, number, request, opened, progress, first)
    print_probing(output.console, probing, loaded.failures)
    data = probing_data(probing, loaded.failures)
    output.write_json(data)
    return EXIT_PARTIAL if data["failures"] else 0


#: Options that have a meaning with ``--pack``.
_PACKING = frozenset({"folder", "extend", "backend", "store", "json_path", "verbose", "quiet"})


@click.command("survey", cls=Concise)
@options.models_argument
@measuring.survey_options
@options.load_options
@click.option(
    "--family",
    "families",
    metavar="NAME",
    type=click.Choice(sorted(weights())),
    multiple=True,
    help="Draw networks of this family only (half_floats), and cut no models but those named. "
    "May be given more than once.  [default: all families]",
)
@click.option(
    "--pack",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Time nothing: write what the store knows, a file for each system, backend and number "
    "of threads.",
)
@click.option(
    "--extend",
    is_flag=True,
    help="With --pack: add what the installed atlas holds of the same system and setup.",
)
@options.store_option
@options.json_option
@options.table_options
def survey_command(
    models: tuple[str, ...],
    backend: str | None,
    folder: Path | None,
    budget_s: float,
    families: tuple[str, ...],
    extend: bool,
    store: str | None,
    **values: Any,
) -> int:
    """Time networks from which latencies of others are predicted.

    The networks are operators over the shapes that real models have, and bricks of MODELs,
    which are all models of the collections that are installed unless others are named. The
    first are the same everywhere; those after them are chosen where predictions err. Run it
    again, and it goes on. Exit status 3: a network could not be timed; it is named.
    """
    output = Output({**values, "folder": folder})
    if folder is not None:
        if models:
            raise click.UsageError("--pack times nothing: leave out the MODELs.")
        context = click.get_current_context()
        for each in context.command.params:
            source = context.get_parameter_source(str(each.name))
            if source is ParameterSource.COMMANDLINE and each.name not in _PACKING:
                raise click.UsageError(f"--pack times nothing: leave out {each.opts[0]}.")
        with output.progress() as progress, ResultStore.open(store, writes=False) as opened:
            packed = pack(opened, folder, progress, backend, extend=extend)
        print_packed(output.console, packed)
        output.write_json(packed_data(packed))
        return 0
    if extend:
        raise click.UsageError("--extend belongs to --pack.")
    backend = backend or preferred("backend")
    if backend is None:
        raise click.UsageError("Name a framework to run on with --backend.")
    request = given.request_of({**values, "backend": backend, "runs": RUNS})
    load, settings = reading.load_options_of(values), reading.import_settings_of(values)
    with output.progress() as progress, ResultStore.open(store) as opened:
        surveyed = survey(models, request, opened, progress, budget_s, load, settings, families)
    print_survey(output.console, surveyed)
    output.write_json(survey_data(surveyed))
    return EXIT_PARTIAL if surveyed.failures or surveyed.unread else 0
