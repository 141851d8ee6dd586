"""Measurements for estimates of other models: calibrations, characterizations, surveys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.commands.machine.calibration import (
    CALIBRATION_SET,
    Fitting,
    calibrate,
    forget_calibration,
)
from dlbricks_core.commands.machine.surveying import RUNS, Packed, Survey, pack, survey
from dlbricks_core.commands.options.jobs import (
    BackendJob,
    PreciseJob,
    RunsJob,
    SetupJob,
    opened,
)
from dlbricks_core.commands.options.models import Models
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.characterization import RUNS as PROBE_RUNS
from dlbricks_core.estimation.characterization import Characterization, characterize
from dlbricks_core.estimation.rates import rated
from dlbricks_core.facts import Failure
from dlbricks_core.figures.precision import SURVEY_S
from dlbricks_core.importers import LoadOptions
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@dataclass(frozen=True, kw_only=True)
class CalibrateJob(BackendJob, PreciseJob):
    """A composer's parameters, fitted to this system.

    Attributes:
        threads: Threads that compute one operator; ``None`` for all physical cores.
    """

    threads: int | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> Fitting:
        """Times networks and their bricks, and fits the parameters.

        Args:
            store: Path or URL of a store, an open store, or ``None`` for the user's own.
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, no model can be read, or the composer
                has no parameters to fit.
        """
        cut_options, request = self.cut_options, self.request()
        with opened(store) as there:
            loaded = self.models.or_default(CALIBRATION_SET).load(observer)
            fitting = calibrate(loaded.models, cut_options, request, there, observer)
        return fitting.lacking(loaded.failures)


@dataclass(frozen=True, kw_only=True)
class ForgetJob(SetupJob):
    """The removal of a calibration.

    Attributes:
        forget: Whether to remove it, which is the only purpose.
        threads: Threads that compute one operator; ``None`` for all physical cores.
        protocol: Name of the protocol; ``None`` for the default.
        granularity: Maximum number of layers in a brick; ``None`` for the composer's own.
        split: Name of the split strategy; ``None`` for the composer's own.
        composer: Name of the composer; ``None`` as for :class:`.BackendJob`.
    """

    forget: bool
    threads: int | None = None
    protocol: str | None = None
    granularity: int | None = None
    split: str | None = None
    composer: str | None = None

    def run(self, store: str | ResultStore | None) -> bool:
        """Removes the calibration. Returns whether there was one.

        Args:
            store: As for :meth:`CalibrateJob.run`.

        Raises:
            DLBricksError: If the composer has no parameters to fit.
        """
        cut_options = CutOptions.chosen(self.granularity, self.split, self.composer)
        request = self.request()
        with opened(store) as there:
            return forget_calibration(cut_options, request, there)


@dataclass(frozen=True)
class Characterized:
    """Networks that were timed because their latencies tell most about this system.

    Attributes:
        probing: The networks.
        failures: Models that could not be read.
    """

    probing: Characterization
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class ProbeJob(SetupJob, RunsJob):
    """Times of a few networks, from which latencies of others are predicted.

    Attributes:
        models: Models whose predictions are to become better; none for all kinds of networks.
        probes: Number of networks to time after those of the rates; ``None`` for none.
        rates: Whether the networks of the rates suffice, where no number of probes is given.
        threads: Threads that compute one operator; ``None`` for all physical cores.
    """

    models: Models
    probes: int | None = None
    rates: bool = False
    threads: int | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> Characterized:
        """Times the networks. Arguments as for :meth:`CalibrateJob.run`.

        Raises:
            DLBricksError: If settings contradict each other, or no model can be read.
        """
        named = bool(self.models.sources)
        if not named and self.models.options != LoadOptions():
            raise DLBricksError(
                "settings of how models are read have no effect without a MODEL",
                hint="Name the MODEL, or leave them out.",
            )
        request = self.request(runs=self.runs or PROBE_RUNS)
        with opened(store) as there:
            loaded = self.models.load(observer) if named else None
            models = loaded.models if loaded else []
            probing = characterize(models, self.probes or 0, request, there, observer, rated())
        return Characterized(probing, loaded.failures if loaded else [])


@dataclass(frozen=True, kw_only=True)
class SurveyJob(SetupJob):
    """Times of many networks, from which latencies of others are predicted.

    Attributes:
        models: Models whose bricks are timed beside drawn networks; none for all collections.
        threads: Threads that compute one operator; ``None`` for all physical cores.
        budget_s: Seconds after which no further network is started.
        seed: Seed of networks, weights and inputs; ``None`` for 0.
        timeout_s: Maximum seconds to load a network, or to run it once; ``None`` for the default.
        families: Names of the families that networks are drawn from; none for all.
    """

    models: Models
    threads: int | None = None
    budget_s: float = SURVEY_S
    seed: int | None = None
    timeout_s: float | None = None
    families: Sequence[str] = ()

    def run(self, store: str | ResultStore | None, observer: Observer) -> Survey:
        """Times the networks. Arguments as for :meth:`CalibrateJob.run`.

        Raises:
            DLBricksError: If settings contradict each other, or there is no such collection or
                family.
        """
        request = self.request(budget_s=None, runs=RUNS)
        names = [str(each) for each in self.models.sources]
        how = self.models.options, self.models.settings
        with opened(store) as there:
            return survey(names, request, there, observer, self.budget_s, *how, self.families)


@dataclass(frozen=True, kw_only=True)
class PackJob:
    """Files with what a store knows for predictors.

    Attributes:
        folder: Folder to write to.
        backend: Name of a backend; ``None`` for all.
        extend: Whether files also hold the reference data of the same system and setup.
    """

    folder: Path
    backend: str | None = None
    extend: bool = False

    def run(self, store: str | ResultStore | None, observer: Observer) -> list[Packed]:
        """Writes the files. Arguments as for :meth:`CalibrateJob.run`.

        Raises:
            DLBricksError: If there is no such store, it knows nothing, or a file cannot be written.
        """
        with opened(store, writes=False, create=False) as there:
            return pack(there, self.folder, observer, self.backend, extend=self.extend)
