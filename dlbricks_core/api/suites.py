"""Functions of the API for suites, which other machines time, and for surveys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

from dlbricks_core.api.arguments import checked
from dlbricks_core.api.inputs import (
    Measuring,
    Sources,
    Store,
    models_of,
    opened_store,
    request_of,
)
from dlbricks_core.api.results import Timings
from dlbricks_core.api.travelling_results import GeneratedSuite, Surveyed
from dlbricks_core.commands.machine import surveying
from dlbricks_core.commands.machine.surveying import RUNS, pack
from dlbricks_core.commands.suite.writing import generate as write_suite
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.results_files import written_results
from dlbricks_core.estimation.suite import bench as time_suite
from dlbricks_core.figures.precision import SURVEY_S
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import ImportSettings
from dlbricks_core.progress import Observer
from dlbricks_core.suites import check_unused

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
    target = Path(folder)
    check_unused(target)
    every = models_of(models)
    asked = given.keys() & {"granularity", "split"}
    cut = CutOptions.chosen(granularity, split, None) if asked else None
    written = write_suite(every, cut, target, given.get("seed", 0), Observer())
    return GeneratedSuite(target, written)


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
    request = request_of(backend, backend_options, measuring)
    with written_results(Path(results)) as opened:
        return Timings(time_suite(Path(folder), request, opened, Observer()))


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
    given = checked(models=models, budget_s=budget_s)
    request = request_of(backend, backend_options, Measuring(threads=threads, seed=seed, runs=RUNS))
    budget = given.get("budget_s", SURVEY_S)
    with opened_store(store) as opened:
        found = surveying.survey(
            given["models"],
            request,
            opened,
            Observer(),
            budget,
            LoadOptions(),
            ImportSettings(),
            families,
        )
    return Surveyed(found)


def pack_survey(
    folder: Pathlike, *, backend: str | None = None, extend: bool = False, store: Store = None
) -> list[Path]:
    """Writes the measurements of a store as training data for predictors.

    There is one file for each system, backend and number of threads.

    Args:
        folder: Folder to write to.
        backend: Name of a backend; ``None`` for all.
        extend: Whether files also contain the installed atlas's networks of the same system and
            setup.
        store: As for :func:`systems`.

    Returns:
        The files.

    Raises:
        DLBricksError: If there is no such store, it is empty, or a file cannot be written.
    """
    given = checked(backend=backend) if backend is not None else {}
    with opened_store(store, writes=False, create=False) as opened:
        packed = pack(opened, Path(folder), Observer(), given.get("backend"), extend=extend)
        return [each.path for each in packed]
