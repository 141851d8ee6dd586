"""Functions of the API for stores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from dlbricks_core.api.inputs import Store, checked, opened_store
from dlbricks_core.commands.results import transfer as travelling
from dlbricks_core.report.files import write_bytes
from dlbricks_core.store import Record, ResultStore, Selection, exported


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
        store: As for :func:`time`.

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
