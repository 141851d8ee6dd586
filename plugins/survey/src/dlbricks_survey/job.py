"""Jobs of surveys: to time networks, and to pack what a store knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.commands.options import jobs
from dlbricks_core.commands.options.models import Models
from dlbricks_core.figures.precision import SURVEY_S
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_survey.surveying import RUNS, Packed, Survey, pack, survey


@dataclass(frozen=True, kw_only=True)
class SurveyJob(jobs.SetupJob):
    """Times of many networks, from which latencies of others are predicted."""

    #: Models whose bricks are timed beside drawn networks; none for all collections.
    models: Models
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    budget_s: float = SURVEY_S  #: Seconds after which no further network is started.
    seed: int | None = None  #: Seed of networks, weights and inputs; ``None`` for 0.
    #: Maximum seconds to load a network, or to run it once; ``None`` for the default.
    timeout_s: float | None = None
    #: Names of the families that networks are drawn from; none for all.
    families: Sequence[str] = ()

    def run(self, store: str | ResultStore | None, observer: Observer) -> Survey:
        """Times the networks."""
        request = self.request(budget_s=None, runs=RUNS)
        names = [str(each) for each in self.models.sources]
        how = self.models.options, self.models.settings
        with jobs.opened(store) as there:
            return survey(names, request, there, observer, self.budget_s, *how, self.families)


@dataclass(frozen=True, kw_only=True)
class PackJob:
    """Files with what a store knows for predictors."""

    folder: Path  #: Folder to write to.
    backend: str | None = None  #: Name of a backend; ``None`` for all.
    #: Whether files also hold the reference data of the same system and setup.
    extend: bool = False

    def run(self, store: str | ResultStore | None, observer: Observer) -> list[Packed]:
        """Writes the files."""
        with jobs.opened(store, writes=False, create=False) as there:
            return pack(there, self.folder, observer, self.backend, extend=self.extend)
