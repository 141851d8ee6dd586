"""The Python API: the command ``suite`` as functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from dlbricks_core.api.inputs import (
    Measuring,
    Sources,
    check_names,
    checked,
    cold,
    strict_models,
)
from dlbricks_core.api.results import Result, Rows, Timings
from dlbricks_core.commands.options.models import Done
from dlbricks_core.progress import Observer
from dlbricks_core.sanitize import sanitized
from dlbricks_suite.command import SuiteTimeJob, SuiteWriteJob
from dlbricks_suite.folder import Suite
from dlbricks_suite.writing import generated_data

Pathlike = str | os.PathLike[str]


def generate(
    models: Sources,
    folder: Pathlike,
    *,
    granularity: int | None = None,
    split: str | None = None,
    seed: int | None = None,
) -> GeneratedSuite:
    """Packs models without their weights, for another machine to time.

    Args:
        models: One model or several, as for :func:`load`.
        folder: Folder to write to; it must not contain a suite already.
        granularity: Maximum number of layers in a brick. With it, or with ``split``, the suite
            contains the paper's bricks, and otherwise the structures of the models.
        split: Name of the split strategy.
        seed: Seed of the weights of the paper's bricks; without it, 0.

    Raises:
        DLBricksError: If an argument is wrong, or a file cannot be written.
        ModelError: If a model cannot be read.
    """
    given = checked(granularity=granularity, split=split, seed=seed)
    job = SuiteWriteJob(models=strict_models(models), folder=Path(folder), **given)
    return GeneratedSuite(job.run(Observer()), job)


def bench(
    folder: Pathlike,
    *,
    backend: str,
    results: Pathlike,
    backend_options: Mapping[str, str] | None = None,
    **measuring: Unpack[Measuring],
) -> Timings:
    """Times the bricks of a suite, and no whole model.

    Args:
        folder: The suite, which :func:`generate` wrote.
        backend: Name of the framework's plugin.
        results: File to write. Bricks with results in an existing file are not timed again.
        backend_options: As for :func:`time`.
        **measuring: As for :func:`time`.

    Raises:
        DLBricksError: If an argument is wrong, or the folder is not a suite.
    """
    check_names(measuring)
    given = cold(checked(backend=backend, **measuring))
    job = SuiteTimeJob(
        folder=Path(folder), results=Path(results), backend_options=backend_options or {}, **given
    )
    return Timings(job.run(None, Observer()).result)


@dataclass(frozen=True, repr=False)
class GeneratedSuite(Result):
    """A suite that was written.

    Attributes:
        written: The suite, and bricks that could not be written.
        job: How it was written.
    """

    written: Done[Suite]
    job: SuiteWriteJob

    @property
    def folder(self) -> Path:
        """Folder of the suite."""
        return self.job.folder

    @property
    def suite(self) -> Suite:
        """Content of the suite."""
        return self.written.result

    @property
    def failures(self) -> list[dict[str, str]]:
        """Bricks that could not be written (``where``), and the reason (``reason``)."""
        return [dict(each) for each in self.to_dict()["failures"]]

    def to_dict(self) -> dict[str, Any]:
        """Models and bricks, as ``dlbricks suite write`` writes them."""
        return dict(generated_data(self.written, self.job))

    def rows(self) -> Rows:
        """One row for each brick."""
        return [{**each, "layers": ", ".join(each["layers"])} for each in self.to_dict()["bricks"]]

    def __repr__(self) -> str:
        return f"<GeneratedSuite: {len(self)} bricks, in {sanitized(str(self.folder))}>"
