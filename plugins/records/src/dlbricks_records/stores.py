"""Moves the content of stores: exports, imports, merges and deletes parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import IO

from dlbricks_core.commands.options.jobs import opened
from dlbricks_core.commands.options.systems import find_machine
from dlbricks_core.errors import DLBricksError, ModelError, StoreError
from dlbricks_core.facts import Rewrite
from dlbricks_core.ir import unpacked
from dlbricks_core.store import AbsentStoreError, ResultStore, locate
from dlbricks_records.contents import (
    Exported,
    Merged,
    Record,
    Selection,
    exported,
    info,
    inventory,
    is_exported,
    merge,
    read_records,
    read_stream,
    records,
)

Location = str | ResultStore | None
"""A store: its path or URL, the open store, or ``None`` for the user's own."""


@dataclass(frozen=True, kw_only=True)
class ExportJob:
    """Content of a store for other stores."""

    systems: Sequence[str] = ()  #: Names of machines, or starts of fingerprints; empty for all.
    backends: Sequence[str] = ()  #: Names of backends; empty for all.

    def run(self, store: Location) -> Exported:
        """Reads the content. The store must exist."""
        with opened(store, writes=False, create=False) as there:
            others = Selection(backends=tuple(self.backends))
            return exported(there, selected(there, self.systems, others))


@dataclass(frozen=True, kw_only=True)
class ImportJob:
    """Addition of exported files to a store: all of their records, or none."""

    files: Sequence[Path | IO[bytes]]  #: The files.

    def run(self, store: Location) -> Merged:
        """Adds the records."""
        return merged_into(store, records_of_files(self.files))


@dataclass(frozen=True, kw_only=True)
class MergeJob:
    """Addition of other stores to a store: all of their records, or none."""

    others: Sequence[str]  #: Paths or URLs of the other stores, which do not change.

    def run(self, store: Location) -> Merged:
        """Adds the records."""
        with records_of_stores(self.others) as every:
            return merged_into(store, every)


_STREAM = "standard input"

_AGAIN = "run that model again with that store, which then holds a new graph of it"

_LOGS = ("-wal", "-shm")  #: Ends of the names of the files that SQLite keeps beside a database.


def selected(
    store: ResultStore, systems: Sequence[str] = (), others: Selection | None = None
) -> Selection:
    """The part of a store that a user names.

    Args:
        store: The store.
        systems: Names of machines, or beginnings of fingerprints; empty for all.
        others: The selection apart from the machines; ``None`` for all.

    Raises:
        DLBricksError: If the store has no measurement of a system, a backend or a quantity.
    """
    others = others or Selection()
    for backend in others.backends:
        if not store.setups(backend):
            known = {each.place.backend for each in inventory(store).holdings}
            raise DLBricksError(
                f"{store.place}: the store has no measurement with the backend {backend!r:.60}",
                hint=f"Backends with measurements: {', '.join(sorted(known)) or 'none'}.",
            )
    measured = store.quantities() if others.quantities else []
    for quantity in others.quantities:
        if quantity not in measured:
            raise DLBricksError(
                f"{store.place}: the store has no measurement of the quantity {quantity!r:.60}",
                hint=f"Quantities with measurements: {', '.join(measured) or 'none'}.",
            )
    return replace(others, machines=tuple(find_machine(store, each) for each in systems))


def prunable(store: ResultStore, systems: Sequence[str], others: Selection) -> Selection:
    """The part of a store that a user names to delete it; arguments as for :func:`selected`.

    Raises:
        DLBricksError: If nothing is named, or as :func:`selected`.
    """
    if not systems and others == Selection():
        raise DLBricksError(
            "the part to delete is not specified",
            hint="Name a system, a backend, a quantity, outdated versions, a date or failures.",
        )
    return selected(store, systems, others)


def records_of_files(files: Sequence[Path | IO[bytes]]) -> Iterator[Record]:
    """Content of files, each of which is read once.

    Raises:
        DLBricksError: If a file cannot be read, is damaged or is of a newer version; also after
            some records, so that whoever adds them must be able to take them back.
    """
    return chain.from_iterable(
        _sound(read_records(file), str(file))
        if isinstance(file, Path)
        else _sound(read_stream(file, _STREAM), _STREAM)
        for file in files
    )


@contextmanager
def records_of_stores(locations: Iterable[str | Path]) -> Iterator[Iterator[Record]]:
    """Content of stores, which stay unchanged. All of them are opened first.

    Raises:
        DLBricksError: If one of the stores is missing or cannot be opened; while it is read, also
            if a graph in it cannot be read.
    """
    with ExitStack() as stack:
        every = [stack.enter_context(_store(each)) for each in locations]
        # A partly read iterator is closed before its store.
        contents = [stack.enter_context(closing(records(each))) for each in every]
        yield chain.from_iterable(
            _sound(each, str(store.place), _AGAIN)
            for each, store in zip(contents, every, strict=True)
        )


def merged_into(store: Location, added: Iterator[Record]) -> Merged:
    """Adds all records to a store, or none. A new store is kept only if records were added.

    Raises:
        DLBricksError: If the store cannot be opened, or holds a quantity in another unit.
    """
    if isinstance(store, ResultStore):
        return merge(store, added)
    # Nothing is made for a file that is missing, or is none of exported records.
    first = list(islice(added, 1))
    file = locate(store).file
    new = [] if file is None else [each for each in (file, *file.parents) if not each.exists()]
    try:
        with ResultStore.open(store) as there:
            return merge(there, chain(first, added))
    except BaseException:
        if new:
            _remove_empty(*new)
        raise


def _remove_empty(file: Path, *folders: Path) -> None:
    """Removes a store in which nothing is, not even from another process, and its new folders."""
    if file.exists():
        with ResultStore.open(file, writes=False) as there:
            found = info(there)
        if found.systems or found.measurements:
            return
        for each in (file, *(file.with_name(f"{file.name}{end}") for end in _LOGS)):
            each.unlink(missing_ok=True)
    with suppress(OSError):  # another process has put something into it
        for folder in folders:
            folder.rmdir()


def _store(location: str | Path) -> ResultStore:
    if is_exported(location):
        raise DLBricksError(
            f"{location} is an exported file, not a result store", hint="Import it instead."
        )
    try:
        return ResultStore.open(location, writes=False, create=False)
    except AbsentStoreError as error:
        raise AbsentStoreError(error.message, "Check the path or the URL.") from error


def _sound(every: Iterable[Record], name: str, hint: str = "export it again") -> Iterator[Record]:
    """The records of a file or a store, whose graphs of models are read as well."""
    read = set[bytes]()  # hashes of graphs: one model may have the same under many setups
    for each in every:
        if isinstance(each, Rewrite) and (known := sha256(each.graph).digest()) not in read:
            read.add(known)
            try:
                unpacked(each.graph, name=each.signature)
            except ModelError as error:
                raise StoreError(f"{name}: {error.message}", hint) from error
        yield each
