"""The manifest of a suite, which may come from an untrusted source."""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dlbricks_core.bricks import STRATEGIES
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import canonical_json
from dlbricks_core.suites.suite import HINT, Cut, check_file, is_there
from dlbricks_core.wording import clone_install

MANIFEST = "manifest.json"
SCHEMA_VERSION = 2

BRICKS, MODELS = "bricks", "models"
"""Folders of a suite's files."""

MOST_BYTES = 32 << 20
"""Maximum bytes of a manifest, enough for some 50,000 bricks."""

_MOST_NUMBER = 2**31 - 1
LONGEST_NAME = 255
"""Maximum characters of a name, and bytes of the name of a file."""

_SIGNATURE = re.compile(r"[0-9a-f]{24}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ManifestEntry:
    """A brick or a model that a manifest names.

    Attributes:
        signature: Signature of the brick, or of the whole model.
        file: Path of its file, in the suite's folder; empty for a brick that is a part of one of
            the suite's models.
        sha256: Hash of the file; empty in suites of version 1.
        name: Name of the model; empty for a brick.
        source: Name of the model in a collection; empty for a brick, and for a file's model.
    """

    signature: str
    file: str = ""
    sha256: str = ""
    name: str = ""
    source: str = ""


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest.

    Attributes:
        version: Version of the manifest.
        cut: How bricks were cut.
        bricks: Distinct bricks.
        models: Models.
        seed: Seed of the weights in the files; ``None`` for files without weights.
    """

    version: int
    cut: Cut
    bricks: tuple[ManifestEntry, ...]
    models: tuple[ManifestEntry, ...]
    seed: int | None


def read_manifest(folder: Path) -> Manifest:
    """Reads and validates the manifest of a folder.

    Raises:
        DLBricksError: If there is none, or any field differs from what ``generate`` writes.
    """
    path = folder / MANIFEST
    fields = _parsed(path)
    _check(path, fields, "schema_version", _is_number, "a version number")
    version = fields["schema_version"]
    if version > SCHEMA_VERSION:
        raise DLBricksError(
            f"{folder} was made by a newer DLBricks",
            hint=f"Update your clone, then {clone_install('.')}.",
        )
    fields = _UPGRADES[version](path, fields)
    for name, (valid, wanted) in _FIELDS.items():
        _check(path, fields, name, valid, wanted)
    bricks = tuple(_entries(path, fields["bricks"], "brick", _BRICK[version]))
    models = tuple(_entries(path, fields["models"], "model", _MODEL))
    _check_different(path, [entry.signature for entry in bricks])
    _check_different(path, [entry.name for entry in models])
    _check_different(path, [entry.file for entry in (*bricks, *models) if entry.file])
    cut = Cut(fields["composer"], fields["split"], fields["granularity"])
    return Manifest(version, cut, bricks, models, fields["seed"])


def checksum(fields: Mapping[str, Any]) -> str:
    """Hash of all fields of a manifest except the hash itself."""
    others = {name: value for name, value in fields.items() if name != "checksum"}
    return hashlib.sha256(canonical_json(others).encode()).hexdigest()


def _from_version_1(path: Path, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a version 1 folder in the form of version 2; such a folder has no hashes."""
    return {"seed": 0, **fields, "composer": "sequential", "models": []}


def _unchanged(path: Path, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields themselves, if none was changed.

    Raises:
        DLBricksError: If one was changed.
    """
    _check(path, fields, "checksum", _matches(_SHA256), "a hash")
    if checksum(fields) != fields["checksum"]:
        raise _wrong(path, "it was changed after it was written")
    return fields


_UPGRADES: Mapping[int, Callable[[Path, Mapping[str, Any]], Mapping[str, Any]]] = MappingProxyType(
    {1: _from_version_1, 2: _unchanged}
)
"""Function that converts a manifest's fields to the newest form, by the manifest's version."""


def _parsed(path: Path) -> Mapping[str, Any]:
    if not is_there(path):
        raise DLBricksError(
            f"{path.parent} is not a suite",
            hint=f"It needs a valid {MANIFEST}: dlbricks suite write MODEL -o FOLDER",
        )
    check_file(path, MOST_BYTES)
    try:
        text = path.read_bytes().decode("utf-8")
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    except UnicodeDecodeError as error:
        raise _wrong(path, "it is not written in UTF-8") from error
    except RecursionError as error:
        raise _wrong(path, "it is nested too deeply") from error
    except ValueError as error:
        raise _wrong(path, f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _wrong(path, "it is not a JSON object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _wrong(path: Path, what: str) -> DLBricksError:
    return DLBricksError(f"{path} is not a valid manifest: {what}", hint=HINT)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _check(
    path: Path, fields: Mapping[str, Any], name: str, valid: Callable[[Any], bool], wanted: str
) -> None:
    if name not in fields:
        raise _wrong(path, f"{name} is missing")
    if not valid(fields[name]):
        raise _wrong(path, f"{name} is {_SHORT.repr(fields[name])}, not {wanted}")


def _entries(path: Path, found: list[Any], kind: str, checks: _Checks) -> Iterable[ManifestEntry]:
    for number, fields in enumerate(found, start=1):
        if not isinstance(fields, dict):
            raise _wrong(path, f"{kind} {number} is {_SHORT.repr(fields)}, not an object")
        try:
            for name, (valid, wanted) in checks.items():
                _check(path, fields, name, valid, wanted)
        except DLBricksError as error:
            raise DLBricksError(f"{error.message} ({kind} {number})", hint=error.hint) from error
        yield ManifestEntry(**{name: fields[name] for name in checks})


def _check_different(path: Path, values: list[str]) -> None:
    for value, times in Counter(values).most_common(1):
        if times > 1:
            raise _wrong(path, f"it names {_SHORT.repr(value)} {times} times")


def _is_number(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _MOST_NUMBER


def _is_seed(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _is_strategy(value: Any) -> bool:
    return isinstance(value, str) and value in STRATEGIES


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME


def _is_name(value: Any) -> bool:
    return _is_text(value) and bool(value)


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_plain_name(value: Any) -> bool:
    """Whether a value is the name of a file in a folder, on any system."""
    return (
        isinstance(value, str)
        and 0 < len(value.encode("utf-8", "replace")) <= LONGEST_NAME
        and value.isprintable()
        and value not in (".", "..", MANIFEST)
        and not set(value) & set("/\\:")
    )


def _is_in(folder: str) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, str)
        and value.startswith(f"{folder}/")
        and _is_plain_name(value.removeprefix(f"{folder}/"))
    )


def _is_nothing_or(valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value == "" or valid(value)


_Checks = Mapping[str, tuple[Callable[[Any], bool], str]]
"""Checks of fields: a predicate for each, and the description of valid values."""

_FIELDS: _Checks = {
    "granularity": (_is_number, "a number of layers"),
    "split": (_is_strategy, f"one of {', '.join(STRATEGIES)}"),
    "composer": (_is_name, "the name of a composer"),
    "seed": (_is_seed, "a seed"),
    "models": (_is_list, "a list of models"),
    "bricks": (_is_list, "a list of bricks"),
}

_HASH = (_matches(_SHA256), "a hash")
_IDENTITY = (_matches(_SIGNATURE), "a signature")
_FILE = "the name of a file in the folder"

_BRICK: Mapping[int, _Checks] = {
    1: {"signature": _IDENTITY, "file": (_is_plain_name, _FILE)},
    2: {
        "signature": _IDENTITY,
        "file": (_is_nothing_or(_is_in(BRICKS)), f"{_FILE} {BRICKS}"),
        "sha256": (_is_nothing_or(_HASH[0]), _HASH[1]),
    },
}
"""Checks of a brick, by the manifest's version."""

_MODEL: _Checks = {
    "signature": _IDENTITY,
    "file": (_is_in(MODELS), f"{_FILE} {MODELS}"),
    "sha256": _HASH,
    "name": (_is_name, "the name of a model"),
    "source": (_is_text, "the name of a model in a collection"),
}
