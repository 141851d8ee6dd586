"""The manifest of a folder of generated bricks, which may come from anybody."""

from __future__ import annotations

import json
import re
import reprlib
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_core.bricks import STRATEGIES
from dlbricks_core.errors import DLBricksError
from dlbricks_core.workflows.composing import CutOptions

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1

MOST_BYTES = 32 << 20
"""Most bytes of a manifest: enough for some 50,000 bricks."""

_MOST_LAYERS = 2**31 - 1
_LONGEST_NAME = 255
_SIGNATURE = re.compile(r"[0-9a-f]{24}")
_HINT = "Make the folder anew with: dlbricks generate MODEL -o FOLDER"


@dataclass(frozen=True)
class Entry:
    """A brick that a manifest names.

    Attributes:
        signature: Signature that the brick in the file has to have.
        file: Name of its file, in the folder itself.
    """

    signature: str
    file: str


@dataclass(frozen=True)
class Manifest:
    """What a manifest says of its folder.

    Attributes:
        entries: Its bricks, each once.
        cut_options: How they were cut.
    """

    entries: tuple[Entry, ...]
    cut_options: CutOptions


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a folder and believes nothing of it.

    Raises:
        DLBricksError: If there is none, or anything in it is not what ``generate`` writes.
    """
    path = folder / MANIFEST
    fields = _parsed(path)
    _check(path, fields, "schema_version", _is_number, "a version number")
    if fields["schema_version"] > SCHEMA_VERSION:
        raise DLBricksError(
            f"{folder} was made by a newer DLBricks", hint="Upgrade: pip install -U dlbricks"
        )
    _check(path, fields, "granularity", _is_number, "a number of layers")
    _check(path, fields, "split", _is_strategy, f"one of {', '.join(STRATEGIES)}")
    _check(path, fields, "bricks", lambda value: isinstance(value, list), "a list of bricks")
    entries = tuple(_entry(path, i, each) for i, each in enumerate(fields["bricks"], start=1))
    _check_different(path, [entry.signature for entry in entries])
    _check_different(path, [entry.file for entry in entries])
    return Manifest(entries, CutOptions(fields["granularity"], fields["split"]))


def check_file(path: Path, most_bytes: int) -> None:
    """Makes sure that reading a file reads that file, and ends.

    Args:
        path: Of a file that somebody else has put there.
        most_bytes: The most that it may hold.

    Raises:
        DLBricksError: If it is missing, a link, a device, a pipe, or too large.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    if stat.S_ISLNK(found.st_mode):
        raise DLBricksError(f"{path} is a link, not a file of the folder's own", hint=_HINT)
    if not stat.S_ISREG(found.st_mode):
        raise DLBricksError(f"{path} is no regular file", hint=_HINT)
    if found.st_size > most_bytes:
        raise DLBricksError(
            f"{path} has {found.st_size} bytes, and at most {most_bytes} are read", hint=_HINT
        )


def _parsed(path: Path) -> Mapping[str, Any]:
    if not _is_there(path):
        raise DLBricksError(
            f"{path.parent} is not a folder of generated bricks",
            hint=f"It needs a valid {MANIFEST}; make one with: dlbricks generate MODEL -o FOLDER",
        )
    check_file(path, MOST_BYTES)
    try:
        text = path.read_bytes().decode("utf-8")
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    except UnicodeDecodeError as error:
        raise _wrong(path, "it is not written in UTF-8") from error
    except RecursionError as error:
        raise _wrong(path, "it is nested too deeply") from error
    except ValueError as error:
        raise _wrong(path, f"it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise _wrong(path, "it is no JSON object")
    return found


def _is_there(path: Path) -> bool:
    """Whether there is something, be it readable or not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _wrong(path: Path, what: str) -> DLBricksError:
    return DLBricksError(f"{path} is not a valid manifest: {what}", hint=_HINT)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _check(
    path: Path, fields: Mapping[str, Any], name: str, valid: Callable[[Any], bool], wanted: str
) -> None:
    if name not in fields:
        raise _wrong(path, f"{name} is missing")
    if not valid(fields[name]):
        raise _wrong(path, f"{name} is {_SHORT.repr(fields[name])}, not {wanted}")


def _entry(path: Path, number: int, fields: Any) -> Entry:
    if not isinstance(fields, dict):
        raise _wrong(path, f"brick {number} is {_SHORT.repr(fields)}, not an object")
    try:
        _check(path, fields, "signature", _is_signature, "a signature")
        _check(path, fields, "file", _is_plain_name, "the name of a file in the folder")
    except DLBricksError as error:
        raise DLBricksError(f"{error.message} (brick {number})", hint=error.hint) from error
    return Entry(fields["signature"], fields["file"])


def _check_different(path: Path, values: list[str]) -> None:
    for value, times in Counter(values).most_common(1):
        if times > 1:
            raise _wrong(path, f"it names {_SHORT.repr(value)} {times} times")


def _is_number(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _MOST_LAYERS


def _is_strategy(value: Any) -> bool:
    return isinstance(value, str) and value in STRATEGIES


def _is_signature(value: Any) -> bool:
    return isinstance(value, str) and _SIGNATURE.fullmatch(value) is not None


def _is_plain_name(value: Any) -> bool:
    """Whether it names something in a folder itself, on any system."""
    return (
        isinstance(value, str)
        and 0 < len(value.encode("utf-8", "replace")) <= _LONGEST_NAME
        and value.isprintable()
        and value not in (".", "..", MANIFEST)
        and not set(value) & set("/\\:")
    )
