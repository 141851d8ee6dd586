"""The Python API: the command ``machine survey`` as functions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_core.api.inputs import Store, checked, job_store
from dlbricks_core.api.results import Result, Rows
from dlbricks_core.commands.options.models import Models
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_survey.job import PackJob, SurveyJob
from dlbricks_survey.report import survey_data
from dlbricks_survey.surveying import Survey


def take_survey(
    models: Sequence[str] = (),
    *,
    backend: str,
    threads: int | None = None,
    budget_s: float | None = None,
    seed: int | None = None,
    store: Store = None,
    backend_options: Mapping[str, str] | None = None,
    families: Sequence[str] = (),
) -> Surveyed:
    """Times networks for predictions of other networks, until a budget ends.

    Networks in the store are not timed again, so a second call continues the first.

    Args:
        models: Paths, and names of models and collections, whose bricks are timed beside drawn
            networks; none for the models of all collections.
        backend: Name of the framework's plugin.
        threads: Threads that compute one operator; ``None`` for all physical cores that the
            process may use.
        budget_s: Seconds after which no further network is begun; without it, 180.
        seed: Seed of networks, weights and inputs; without it, 0.
        store: As for :func:`time`.
        backend_options: As for :func:`time`.
        families: Names of the families from which networks are drawn, such as ``"half_floats"``;
            empty for all. If it is not empty, only ``models`` are cut into bricks.

    Raises:
        DLBricksError: If an argument is wrong. A network that cannot be timed is not an error:
            ``failures`` of the result names it.
    """
    given = checked(backend=backend, threads=threads, budget_s=budget_s, seed=seed)
    named = Models(checked(models=models)["models"])
    options = {} if backend_options is None else backend_options
    job = SurveyJob(models=named, backend_options=options, families=families, **given)
    return Surveyed(job.run(job_store(store), Observer()))


def pack_survey(
    folder: str | os.PathLike[str],
    *,
    backend: str | None = None,
    extend: bool = False,
    store: Store = None,
) -> list[Path]:
    """Writes the measurements of a store as training data for predictors.

    There is one file for each system, backend and number of threads.

    Args:
        folder: Folder to write to.
        backend: Name of a backend; ``None`` for all.
        extend: Whether files also contain the installed atlas's networks of the same system and
            setup.
        store: As for :func:`time`.

    Returns:
        The files.

    Raises:
        DLBricksError: If there is no such store, it is empty, or a file cannot be written.
    """
    given = checked(backend=backend) if backend is not None else {}
    job = PackJob(folder=Path(folder), extend=extend, **given)
    return [each.path for each in job.run(job_store(store), Observer())]


@dataclass(frozen=True, repr=False)
class Surveyed(Result):
    """Networks that were timed to predict latencies on this system.

    Attributes:
        survey: Result of the workflow.
    """

    survey: Survey

    @property
    def failures(self) -> list[dict[str, str]]:
        """Failures: networks that could not be timed (``where``), and the reason (``reason``)."""
        return [dict(each) for each in self.to_dict()["failures"]]

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the figures, such as a machine that was busy."""
        return [text(each) for each in self.survey.warnings]

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks machine survey``."""
        return dict(survey_data(self.survey))

    def rows(self) -> Rows:
        """One row for each family of networks."""
        return [
            {
                "family": each["name"],
                "networks": each["networks"],
                **{name: (each["predictions"] or {}).get(name) for name in _PREDICTED},
            }
            for each in self.to_dict()["families"]
        ]

    def __repr__(self) -> str:
        known, anew = self.survey.networks, self.survey.anew
        return f"<Surveyed: {known} networks known, {anew} of them timed now>"


_PREDICTED = ("error", "half_width", "coverage")
"""Figures on predictions of a family."""
