"""Suites: written from models, and timed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.commands.options.jobs import PreciseJob, SetupJob, opened, refuse
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.suite.writing import generate
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.results_files import written_results
from dlbricks_core.estimation.suite import bench
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.suites import Suite, check_unused
from dlbricks_core.wording import argument


@dataclass(frozen=True, kw_only=True)
class SuiteWriteJob:
    """A suite for another machine."""

    models: Models  #: The models.
    folder: Path  #: Folder to write to; it must not hold a suite already.
    #: Maximum number of layers in a brick. With it, or with ``split``, the suite holds the paper's
    #: bricks, and otherwise the structures of the models.
    granularity: int | None = None
    split: str | None = None  #: Name of the split strategy.
    seed: int | None = None  #: Seed of the weights of the paper's bricks; ``None`` for 0.

    def run(self, observer: Observer) -> Done[Suite]:
        """Writes the suite.

        Args:
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, no model can be read, or the folder
                cannot be written.
        """
        models = self.models.or_default()
        cut = None
        if (self.granularity, self.split) != (None, None):
            cut = CutOptions.chosen(self.granularity, self.split, None)
        else:
            few, split = argument("granularity"), argument("split")
            hint = f"Leave {{}} out, or add {few} or {split}."
            refuse(self, ["seed"], "is for bricks: structures of models have no weights", hint)
        check_unused(self.folder)
        loaded = models.load(observer)
        suite = generate(loaded.models, cut, self.folder, self.seed or 0, observer)
        return Done(suite, [*loaded.failures, *suite.omitted])


@dataclass(frozen=True)
class TimedSuite:
    """Times of a suite."""

    result: RunResult  #: The times.
    location: str  #: Place of the samples, as users know it.


@dataclass(frozen=True, kw_only=True)
class SuiteTimeJob(SetupJob, PreciseJob):
    """Times of the bricks of a suite."""

    folder: Path  #: The suite.
    quantity: str | None = None  #: Name of the quantity; ``None`` for latency.
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    #: File for the samples in place of a store; what it holds is not measured again.
    results: Path | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> TimedSuite:
        """Times the suite.

        Args:
            store: Path or URL of a store, an open store, or ``None`` for the user's own.
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, or the folder holds no suite.
        """
        request = self.request()
        with self._opened(store) as there:
            result = bench(self.folder, request, there, observer)
            return TimedSuite(result, str(self.results or there.info().location))

    def _opened(self, store: str | ResultStore | None) -> AbstractContextManager[ResultStore]:
        if self.results is None:
            return opened(store)
        if store is not None:
            raise DLBricksError(
                f"{argument('results')} and {argument('store')} exclude each other",
                hint="Leave one of them out.",
            )
        return written_results(self.results)
