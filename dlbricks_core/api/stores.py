"""Functions of the API for stores, and for suites, which other machines time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from dlbricks_core.api.inputs import (
    Measuring,
    Sources,
    Store,
    check_names,
    checked,
    cold,
    opened_store,
    strict_models,
)
from dlbricks_core.api.results import GeneratedSuite, Systems, Timings
from dlbricks_core.commands.results import transfer as travelling
from dlbricks_core.commands.suite.actions import SuiteTimeJob, SuiteWriteJob
from dlbricks_core.progress import Observer
from dlbricks_core.report.files import write_bytes
from dlbricks_core.store import Record, ResultStore, Selection, exported


def systems(*, store: Store = None) -> Systems:
    """Lists the systems of a store, with their facts and numbers of measurements.

    Args:
        store: A path, the URL of a PostgreSQL database, an open store, or ``None`` for the user's
            own file.

    Raises:
        DLBricksError: If there is no such store.
    """
    with opened_store(store, writes=False, create=False) as opened:
        return Systems(opened.inventory())


def export_store(
    path: str | os.PathLike[str],
    *,
    systems: Sequence[str] = (),
    backends: Sequence[str] = (),
    store: Store = None,
) -> dict[str, int]:
    """Writes the content of a store to a file for other stores.

    Args:
        path: The file, such as ``measurements.jsonl.zst``.
        systems: Names of machines, or starts of fingerprints; empty for all.
        backends: Names of backends; empty for all.
        store: As for :func:`systems`.

    Returns:
        Number of records of each kind in the file.

    Raises:
        DLBricksError: If there is no such store, system or backend, or the file cannot be written.
    """
    given = checked(systems=systems, backends=backends)
    asked = Selection(backends=given.get("backends", ()))
    with opened_store(store, writes=False, create=False) as opened:
        found = exported(opened, travelling.selected(opened, given.get("systems", ()), asked))
    write_bytes(found.content, Path(path))
    return found.numbers


def import_store(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, store: Store = None
) -> dict[str, int]:
    """Adds all records of files of :func:`export_store` to a store, or none.

    Args:
        paths: One file or several.
        store: As for :func:`time`.

    Returns:
        Number of new records of each kind.

    Raises:
        DLBricksError: If a file cannot be read, is damaged or is of a newer version.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    records = travelling.records_of_files([Path(each) for each in several])
    return _merged(records, store)


def merge_stores(
    others: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, store: Store = None
) -> dict[str, int]:
    """Adds all records of other stores to a store, or none; the other stores do not change.

    Args:
        others: One store or several.
        store: As for :func:`time`.

    Returns:
        Number of new records of each kind.

    Raises:
        DLBricksError: If one of the other stores does not exist or cannot be read.
    """
    several = [others] if isinstance(others, str | os.PathLike) else others
    locations = [os.fspath(each) for each in several]
    with travelling.records_of_stores(locations) as records:
        return _merged(records, store)


def _merged(records: Iterator[Record], store: Store) -> dict[str, int]:
    """Numbers of new records. A store that does not exist is created only for sound records."""
    location = checked(store=store).get("store")
    if isinstance(location, ResultStore):
        return asdict(location.merge(records))
    return asdict(travelling.merged_into(location, records))


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
