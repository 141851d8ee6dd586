"""Studies: made from models, or reports of studies that were made before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlbricks_core.commands.options.jobs import RunsJob, SetupJob, opened
from dlbricks_core.commands.options.models import Models
from dlbricks_core.errors import DLBricksError
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_study.data import study_data
from dlbricks_study.experiments import QUICK_RUNS, study
from dlbricks_study.record import StudyRecord, read_studies
from dlbricks_study.record import complete as study_complete


@dataclass(frozen=True)
class PlacedStudy:
    """A study, and the folder for its report."""

    record: StudyRecord  #: The study.
    folder: Path  #: Folder of the report.
    is_complete: bool = True  #: Whether every model is in all figures.


@dataclass(frozen=True, kw_only=True)
class StudyJob(SetupJob, RunsJob):
    """The paper's evaluation of models."""

    models: Models  #: The models.
    folder: Path = Path("study")  #: Folder for the report.
    granularities: Sequence[int] = tuple(range(1, 11))  #: Maximum numbers of layers in a brick.
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    quick: bool = False  #: Whether there are only a few runs.

    def run(self, store: str | ResultStore | None, observer: Observer) -> PlacedStudy:
        """Makes the study."""
        models = self.models.or_default()
        if self.quick and self.runs is not None:
            raise DLBricksError(
                f"{argument('quick')} and {argument('runs')} contradict each other",
                hint="Leave one of them out.",
            )
        request = self.request(runs=QUICK_RUNS) if self.quick else self.request()
        with opened(store) as there:
            loaded = models.load(observer)
            found = study(loaded.models, self.granularities, request, there, observer)
            found = replace(found, unread=loaded.failures)
        record = StudyRecord(study_data(found, models.options))
        return PlacedStudy(record, self.folder, study_complete(found))


@dataclass(frozen=True, kw_only=True)
class StudyReportJob:
    """Reports of studies that were made before. Nothing runs."""

    source: Path  #: File of one or several studies.
    #: Folder for the report; of several studies each gets a folder with its number.
    folder: Path = Path("study")

    def run(self) -> list[PlacedStudy]:
        """The studies in the file.

        Raises:
            DLBricksError: If the file holds no studies.
        """
        found = read_studies(self.source)
        return [
            PlacedStudy(each, self.folder / str(number) if len(found) > 1 else self.folder)
            for number, each in enumerate(found, 1)
        ]
