"""``dlbricks machine calibrate``: measurements for estimates of other models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from dlbricks_prediction.rates import rated

from dlbricks_core.commands.options import given, jobs, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.rates import RUNS as PROBE_RUNS
from dlbricks_core.importers import LoadOptions
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_survey.calibration import (
    CALIBRATION_SET,
    Fitting,
    calibrate,
    fitting_data,
    forget_calibration,
    print_fitting,
    print_probing,
    probing_data,
)
from dlbricks_survey.characterization import Characterization, characterize


@dataclass(frozen=True, kw_only=True)
class CalibrateJob(jobs.BackendJob, jobs.PreciseJob):
    """A composer's parameters, fitted to this system."""

    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> Fitting:
        """Times networks and their bricks, and fits the parameters."""
        cut_options, request = self.cut_options, self.request()
        with jobs.opened(store) as there:
            loaded = self.models.or_default(CALIBRATION_SET).load(observer)
            fitting = calibrate(loaded.models, cut_options, request, there, observer)
        return fitting.lacking(loaded.failures)


@dataclass(frozen=True, kw_only=True)
class ForgetJob(jobs.SetupJob):
    """The removal of a calibration."""

    forget: bool  #: Whether to remove it, which is the only purpose.
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    protocol: str | None = None  #: Name of the protocol; ``None`` for the default.
    #: Maximum number of layers in a brick; ``None`` for the composer's own.
    granularity: int | None = None
    split: str | None = None  #: Name of the split strategy; ``None`` for the composer's own.
    composer: str | None = None  #: Name of the composer; ``None`` as for :class:`.BackendJob`.

    def run(self, store: str | ResultStore | None) -> bool:
        """Removes the calibration. Returns whether there was one."""
        cut_options = CutOptions.chosen(self.granularity, self.split, self.composer)
        request = self.request()
        with jobs.opened(store) as there:
            return forget_calibration(cut_options, request, there)


@dataclass(frozen=True, kw_only=True)
class ProbeJob(jobs.SetupJob, jobs.RunsJob):
    """Times of a few networks, from which latencies of others are predicted."""

    #: Models whose predictions are to become better; none for all kinds of networks.
    models: Models
    #: Number of networks to time after those of the rates; ``None`` for none.
    probes: int | None = None
    #: Whether the networks of the rates suffice, where no number of probes is given.
    rates: bool = False
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> Done[Characterization]:
        """Times the networks."""
        named = bool(self.models.sources)
        if not named and self.models.options != LoadOptions():
            raise DLBricksError(
                "settings of how models are read have no effect without a MODEL",
                hint="Name the MODEL, or leave them out.",
            )
        request = self.request(runs=self.runs or PROBE_RUNS)
        with jobs.opened(store) as there:
            loaded = self.models.load(observer) if named else None
            models = loaded.models if loaded else []
            probing = characterize(models, self.probes or 0, request, there, observer, rated())
        return Done(probing, loaded.failures if loaded else [])


@click.command("calibrate", cls=Concise)
@shared.models_argument
@shared.estimate_options
@shared.timing_options
@click.option(
    "--probes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Fit nothing. Time the networks of --rates, then this number of networks, those that "
    f"narrow predictions for this system most.  [{PROBE_RUNS} runs of each]",
)
@click.option(
    "--rates",
    is_flag=True,
    help="Fit nothing. Time a fixed set of networks that show how fast this machine computes and "
    "moves data.",
)
@click.option("--forget", is_flag=True, help="Remove the stored calibration, and fit nothing.")
@shared.store_option
@shared.json_option
@shared.table_options
def calibrate_command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Fit a composer's parameters to this system, or with --rates the predictions.

    Times MODELs, by default the networks of the onnx package, and all of their bricks in the same
    rounds. The fitted numbers decide how wide the intervals of estimates are;
    with the composer 'similar' also how latencies of other bricks are derived from a timed one.
    They are stored with the networks behind them, and used by later estimates of other models. Exit
    status 3: a network could not be timed; it is named, and left out.

    With --rates, small networks are timed instead, the same on all machines: in about two seconds
    they show how fast this machine computes and moves data inside the framework. With --probes,
    NUMBER further networks are timed: those that most narrow the predictions of MODELs, or without
    MODELs those of all kinds of networks. All later predictions for this system use them.
    """
    output = Output(values)
    if values["forget"]:
        if values["json_path"] is not None:
            raise click.UsageError("--forget writes no JSON: leave out --json.")
        known = given.job_of(ForgetJob, models, values, "--forget fits nothing").run(store)
        output.console.print("Forgotten." if known else "No calibration was stored.")
        return 0
    if values["probes"] is not None or values["rates"]:
        mode = "--rates" if values["probes"] is None else "--probes"
        job = given.job_of(ProbeJob, models, values, f"{mode} fits nothing")
        return _probe(job, store, output)
    calibration = given.job_of(CalibrateJob, models, values)
    with output.progress() as progress:
        fitting = calibration.run(store, progress)
    print_fitting(output.console, fitting)
    output.write_json(fitting_data(fitting, calibration.models.options))
    complete = fitting.evaluation.result.is_sound and not fitting.evaluation.left_out
    return 0 if complete else EXIT_PARTIAL


def _probe(job: ProbeJob, store: str | None, output: Output) -> int:
    with output.progress() as progress:
        found = job.run(store, progress)
    print_probing(output.console, found.result, found.failures)
    data = probing_data(found.result, found.failures)
    output.write_json(data)
    return EXIT_PARTIAL if data["failures"] else 0
