"""Exported files, which carry the content of a store to another machine or store.

A file holds lines of JSON, compressed with Zstandard. The first line has the version, and the last
line the number of records. Each line between them is a record, after the records that it refers to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import zstandard

from dlbricks_core.errors import StoreError, or_room
from dlbricks_core.facts import LATENCY, Measurement, Quantity, Session
from dlbricks_core.files import opened
from dlbricks_core.limits import EXPORTED, JSON_TEXT, LimitError, parsed
from dlbricks_core.store import ResultStore
from dlbricks_core.store.database import patiently
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument
from dlbricks_records.contents.merging import Merged, merge
from dlbricks_records.contents.records import (
    Record,
    measurement_of,
    plain,
    record_of,
    records,
    system_of,
)
from dlbricks_records.contents.selection import EVERYTHING, Selection

VERSION = 3
"""Version of the files that are written. Files of versions 1 and 2 are plain JSON."""

_VERSION, _END = "dlbricks_measurements", "end"
_MAGIC = zstandard.FRAME_HEADER
_DATABASE = b"SQLi"
_LEVEL = 10
"""Compression of a few megabytes a second, within some percent of the densest."""

_CHUNK = 1024
"""Bytes that are decompressed at once. A hostile file makes some 30 MB of them, at most."""

_MIB = 2**20
"""Bytes of a mebibyte, in which limits are stated."""

_JSON_COLUMNS = frozenset({"layers", "flags", "facts", "found", "kinds", "groups"})
"""Columns of JSON, whose texts are escaped in the database as they are in the file."""


_COUNTED = tuple(each.name for each in fields(Merged))


@dataclass(frozen=True)
class Exported:
    """A file that travels.

    Attributes:
        content: Bytes of the file.
        records: Number of records, by name of their kind.
        observations: Number of observations in all measurements.
    """

    content: bytes
    records: Mapping[str, int]
    observations: int

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers of records in the file, by the names of :class:`Merged`."""
        counts = {f"{kind}s": number for kind, number in self.records.items() if kind != "quantity"}
        return {**dict.fromkeys(_COUNTED, 0), **counts, "observations": self.observations}


def exported(
    store: ResultStore,
    selection: Selection = EVERYTHING,
    only: Callable[[Record], bool] = lambda record: True,
) -> Exported:
    """A store, or a part of it, as a file. Contents in the same order give the same bytes.

    Where a server was lost meanwhile, all is read again once it answers.

    Args:
        store: The store.
        selection: Machines and backends whose measurements are written.
        only: Whether a record is written. Those that others refer to must be.
    """
    return patiently(store.place, lambda: _exported(store, selection, only))


def _exported(store: ResultStore, selection: Selection, only: Callable[[Record], bool]) -> Exported:
    content, numbers, observations = BytesIO(), dict[str, int](), 0
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    with compressor.stream_writer(content, closefd=False) as file:
        file.write(_line({_VERSION: VERSION, "written_by": __version__}))
        for record in filter(only, records(store, selection)):
            kind, data = plain(record)
            numbers[kind] = numbers.get(kind, 0) + 1
            if isinstance(record, Measurement):
                observations += len(record.observations)
            file.write(_line({kind: data}))
        file.write(_line({_END: sum(numbers.values())}))
    return Exported(content.getvalue(), numbers, observations)


def export_measurements(store: ResultStore, path: Path, selection: Selection = EVERYTHING) -> int:
    """Writes a store to a file.

    Args:
        store: The store.
        path: The file. An earlier one is replaced when the new one is complete.
        selection: Machines and backends whose measurements are written; everything by default.

    Returns:
        Number of measurements.

    Raises:
        StoreError: If the file cannot be written.
    """
    found = exported(store, selection)
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(found.content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        hint = or_room(error, "choose a file that can be written")
        raise StoreError(f"{path}: {error.strerror}", hint) from error
    return found.records.get("measurement", 0)


def import_measurements(store: ResultStore, path: Path) -> int:
    """Adds the records of a file that :func:`export_measurements` wrote.

    What the store has already is not added again.

    Returns:
        Number of observations that were new.

    Raises:
        StoreError: If the file cannot be read, is damaged or is of a newer version; the store is
            left as it was.
    """
    return merge(store, read_records(path)).observations


def is_exported(location: str | Path) -> bool:
    """Whether there is a compressed file at a place where a store is expected."""
    try:
        with opened(Path(location)) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_records(path: Path) -> Iterator[Record]:
    """Records of a file; errors as of :func:`import_measurements`, also after some records."""
    try:
        file = opened(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "check the path") from error
    with file:
        yield from read_stream(file, str(path))


def read_stream(file: IO[bytes], name: str) -> Iterator[Record]:
    """Records of a file that is open.

    Args:
        file: The file.
        name: Its name, for messages.

    Raises:
        StoreError: If it cannot be read, is damaged or is of a newer version; also after some
            records.
    """
    with _file_errors(name):
        begin = file.read(len(_MAGIC))
        if begin == _MAGIC:
            yield from _records(_lines(file, begin), name)
        elif begin == _DATABASE:
            raise StoreError(
                f"{name} is a result store, no exported file",
                "merge it into a store, or name it with " + argument("store"),
            )
        else:
            yield from _earlier(parsed(begin + _rest(file)), name)


_GIVE = "give a file that DLBricks exported"


class _DamagedError(ValueError):
    """A file of DLBricks that is not as it was written."""


_WRONG = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""Errors that content of another form than that of an exported file leads to."""


@contextmanager
def _damage_of(record: int) -> Iterator[None]:
    """Names the damaged record of a file."""
    try:
        yield
    except LimitError:
        raise
    except _WRONG as error:
        raise _DamagedError(f"record {record} is damaged") from error


@contextmanager
def _file_errors(name: str) -> Iterator[None]:
    """Converts any error of reading a file into an error with a hint."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{name}: {error.strerror}", "check the path") from error
    except LimitError as error:
        raise StoreError(f"{name} holds {error}", error.limit.hint) from error
    except _DamagedError as error:
        raise StoreError(f"{name}: {error}", "copy it again from where it was written") from error
    except zstandard.ZstdError as error:
        raise StoreError(
            f"{name}: the file is damaged", "copy it again from where it was written"
        ) from error
    except _WRONG as error:
        raise StoreError(f"{name} does not hold exported measurements", _GIVE) from error


def _line(data: dict[str, Any]) -> bytes:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    if len(text) >= JSON_TEXT.most * _MIB:
        raise StoreError(f"a record would have {JSON_TEXT.words}", JSON_TEXT.hint)
    return text.encode() + b"\n"


def _rest(file: IO[bytes]) -> bytes:
    """Rest of a file that is a single JSON text."""
    most = JSON_TEXT.most * _MIB
    found = file.read(most + 1)
    if len(found) > most:
        raise LimitError(JSON_TEXT)
    return found


def _lines(file: IO[bytes], begin: bytes) -> Iterator[bytes]:
    """Lines of a compressed file, the end of which is checked."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    longest, left = JSON_TEXT.most * _MIB, EXPORTED.most * _MIB
    rest, chunk = bytearray(), begin
    while chunk:
        if decompressor.eof:
            raise _DamagedError("something follows the end of the file")
        piece = decompressor.decompress(chunk)
        left -= len(piece)
        if left < 0:
            raise LimitError(EXPORTED)
        # Only the new piece is searched: a long line comes in thousands of them.
        *whole, last = piece.split(b"\n")
        for each in whole:
            yield bytes(rest + each)
            rest.clear()
        rest += last
        if len(rest) > longest:
            raise LimitError(JSON_TEXT)
        chunk = file.read(_CHUNK)
    if decompressor.unused_data:
        raise _DamagedError("something follows the end of the file")
    if rest or not decompressor.eof:
        raise _DamagedError("the file is cut off")


def _records(lines: Iterator[bytes], name: str) -> Iterator[Record]:
    """Records between the first line and the last, which are checked."""
    _check_version(_parsed(next(lines, b"{}"))[_VERSION], name)
    quantities: dict[str, Quantity] = {}
    number, end = 0, None
    for line in lines:
        if end is not None:
            raise _DamagedError("something follows the last record")
        with _damage_of(number + 1):
            ((kind, data),) = _parsed(line).items()
            if kind == _END:
                end = data
                continue
            record = record_of(kind, data, quantities)
        if isinstance(record, Quantity):
            quantities[record.name] = record
        number += 1
        yield record
    if end is None:
        raise _DamagedError("the file is cut off")
    if end != number:
        raise _DamagedError(f"the file holds {number} records instead of {end}")


def _parsed(line: bytes) -> dict[str, Any]:
    data = dict(parsed(line))
    if b"\\u" in line:
        _check_texts(data)
    return data


def _check_texts(data: Any) -> None:
    """Raises an error for a text that a column of the database cannot hold."""
    if isinstance(data, str):
        data.encode()  # raises an error for half of a surrogate pair
        if "\0" in data:
            raise ValueError("a text holds a null character")
    elif isinstance(data, dict):
        for name, value in data.items():
            if name not in _JSON_COLUMNS:
                _check_texts(value)
    elif isinstance(data, list):
        for each in data:
            _check_texts(each)


def _check_version(version: Any, name: str) -> None:
    if version == VERSION:
        return
    if not isinstance(version, int):
        raise ValueError(f"version {version}")  # noqa: TRY004 - as for any other damage
    raise StoreError(
        f"{name}: measurements of version {version}, this DLBricks reads up to {VERSION}",
        "upgrade DLBricks on this machine",
    )


def _earlier(content: Any, name: str) -> Iterator[Record]:
    """Records of a file of version 1 or 2."""
    version = content["measurements_version"]
    if version not in _UPGRADES:
        _check_version(version, name)
    content = _UPGRADES[version](content)
    quantities = {each.name: each for each in map(Quantity.from_dict, content["quantities"])}
    for fingerprint, facts in content["systems"].items():
        yield system_of(fingerprint, facts)
    yield from map(Session.from_dict, content["sessions"])
    yield from quantities.values()
    for each in content["measurements"]:
        yield measurement_of(each, quantities)


def _from_version_1(content: Mapping[str, Any]) -> dict[str, Any]:
    """Content of a file of version 1 in the form of version 2.

    When version 1 was written, DLBricks measured latency only, all plugins had version 0.1.0, and
    sessions were not recorded.
    """
    measurements = []
    for each in content["measurements"]:
        key = _renamed(each["key"], {"backend_version": "version", "settings": "options"})
        key |= {"quantity": LATENCY.name, "plugin": "0.1.0"}
        names = {"samples_ms": "values", "call_ms": "overhead", "warnings": "flags"}
        taken = [_renamed(sample_set, names) for sample_set in each["samples"]]
        measurements.append({**each, "key": key, "observations": taken})
    quantities = [LATENCY.to_dict()]
    return {**content, "quantities": quantities, "sessions": [], "measurements": measurements}


def _renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in data.items()}


_UPGRADES: dict[Any, Callable[[Any], Any]] = {1: _from_version_1, 2: dict}
"""Function that brings a file's content into the form of version 2, by the version of the file."""
