"""Functions on stores: export, import and merge."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dlbricks_core.api.inputs import Store, checked, job_store
from dlbricks_core.report.files import write_bytes
from dlbricks_records.stores import ExportJob, ImportJob, MergeJob


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
        store: As for :func:`dlbricks.time`.

    Returns:
        Number of records of each kind in the file.

    Raises:
        DLBricksError: If there is no such store, system or backend, or the file cannot be written.
    """
    found = ExportJob(**checked(systems=systems, backends=backends)).run(job_store(store))
    write_bytes(found.content, Path(path))
    return found.numbers


def import_store(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, store: Store = None
) -> dict[str, int]:
    """Adds all records of files of :func:`export_store` to a store, or none.

    Args:
        paths: One file or several.
        store: As for :func:`dlbricks.time`.

    Returns:
        Number of new records of each kind.

    Raises:
        DLBricksError: If a file cannot be read, is damaged or is of a newer version.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    job = ImportJob(files=[Path(each) for each in several])
    return asdict(job.run(job_store(store)))


def merge_stores(
    others: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, store: Store = None
) -> dict[str, int]:
    """Adds all records of other stores to a store, or none; the other stores do not change.

    Args:
        others: One store or several.
        store: As for :func:`dlbricks.time`.

    Returns:
        Number of new records of each kind.

    Raises:
        DLBricksError: If one of the other stores does not exist or cannot be read.
    """
    several = [others] if isinstance(others, str | os.PathLike) else others
    job = MergeJob(others=[os.fspath(each) for each in several])
    return asdict(job.run(job_store(store)))
