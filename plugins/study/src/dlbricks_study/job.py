"""Studies: made from models, or reports of studies that were made before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlbricks_core.commands.options.given import open_request
from dlbricks_core.commands.options.jobs import opened
from dlbricks_core.commands.options.models import Models
from dlbricks_core.errors import DLBricksError
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_study.data import study_data
from dlbricks_study.experiments import QUICK_RUNS, study
from dlbricks_study.record import StudyRecord, read_studies
from dlbricks_study.record import complete as study_complete


@dataclass(frozen=True)
class PlacedStudy:
    """A study, and the folder for its report.

    Attributes:
        record: The study.
        folder: Folder of the report.
        is_complete: Whether every model is in all figures.
    """

    record: StudyRecord
    folder: Path
    is_complete: bool = True


@dataclass(frozen=True, kw_only=True)
class StudyJob:
    """The paper's evaluation of models. ``None`` stands for the default of :meth:`Request.of`.

    Attributes:
        models: The models.
        folder: Folder for the report.
        granularities: Maximum numbers of layers in a brick.
        backend: Name of the backend.
        backend_options: Values of options that the backend declares, by name.
        threads: Threads that compute one operator; ``None`` for all physical cores.
        protocol: Name of the protocol.
        runs: Runs of each network.
        quick: Whether there are only a few runs.
        seed: Seed of weights and inputs.
        timeout_s: Maximum seconds to load a network, or to run it once.
        force: Whether to repeat stored measurements.
        retry_failed: Whether to repeat failed measurements.
        busy: What happens where other programs use the CPUs.
    """

    models: Models
    backend: str
    folder: Path = Path("study")
    granularities: Sequence[int] = tuple(range(1, 11))
    backend_options: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    protocol: str | None = None
    runs: int | None = None
    quick: bool = False
    seed: int | None = None
    timeout_s: float | None = None
    force: bool = False
    retry_failed: bool = False
    busy: str | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> PlacedStudy:
        """Makes the study.

        Args:
            store: Path or URL of a store, an open store, or ``None`` for the user's own.
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, or no model can be read.
        """
        models = self.models.or_default()
        if self.quick and self.runs is not None:
            raise DLBricksError(
                f"{argument('quick')} and {argument('runs')} contradict each other",
                hint="Leave one of them out.",
            )
        runs = QUICK_RUNS if self.quick else self.runs
        request = Request.of(**open_request({**vars(self), "runs": runs}))
        with opened(store) as there:
            loaded = models.load(observer)
            found = study(loaded.models, self.granularities, request, there, observer)
            found = replace(found, unread=loaded.failures)
        record = StudyRecord(study_data(found, models.options))
        return PlacedStudy(record, self.folder, study_complete(found))


@dataclass(frozen=True, kw_only=True)
class StudyReportJob:
    """Reports of studies that were made before. Nothing runs.

    Attributes:
        source: File of one or several studies.
        folder: Folder for the report; of several studies each gets a folder with its number.
    """

    source: Path
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
