"""The manifest of a suite, which may come from an untrusted source."""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from dlbricks_core.bricks import STRATEGIES, Brick, CutModel, extract
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure, canonical_json
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.wording import clone_install

# Checks of a suite's files, which somebody else has written.

HINT = "Create the folder again with: dlbricks suite write MODEL -o FOLDER"


def check_file(path: Path, most_bytes: int) -> None:
    """Checks that a path is a regular file of limited size, so that reading it ends.

    Args:
        path: Path of an untrusted file.
        most_bytes: Maximum size in bytes.

    Raises:
        DLBricksError: If the file is missing, a link, a device, a pipe, or too large.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if stat.S_ISLNK(found.st_mode):
        raise DLBricksError(f"{path} is a link, not a file of the folder's own", hint=HINT)
    if not stat.S_ISREG(found.st_mode):
        raise DLBricksError(f"{path} is not a regular file", hint=HINT)
    if found.st_size > most_bytes:
        raise DLBricksError(
            f"{path} has {found.st_size} bytes, and at most {most_bytes} are read", hint=HINT
        )


def check_inside(folder: Path, path: Path) -> None:
    """Checks that no folder between a suite's folder and a file in it is a link.

    Raises:
        DLBricksError: If one is.
    """
    for parent in path.parents:
        if parent == folder:
            return
        if parent.is_symlink():
            raise DLBricksError(f"{parent} is a link, not a folder of the suite's own", hint=HINT)


def check_content(path: Path, sha256: str) -> None:
    """Checks that a file is unchanged.

    Raises:
        DLBricksError: If the file has another hash, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if found != sha256:
        raise DLBricksError(f"{path} was changed after it was written", hint=HINT)


def is_there(path: Path) -> bool:
    """Whether a path exists, readable or not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


@dataclass(frozen=True)
class Cut:
    """How bricks were cut, and how their figures are composed.

    Attributes:
        composer: Name of the composer.
        strategy: Name of the split strategy.
        granularity: Maximum number of layers in a brick.
    """

    composer: str
    strategy: str
    granularity: int


@dataclass(frozen=True)
class SuiteBrick:
    """A brick of a suite.

    Attributes:
        brick: The brick.
        used: Number of occurrences in each model, by the model's name; empty where the suite does
            not reveal it.
        packed: Whether the suite holds the brick itself. Otherwise the brick is part of a model in
            the suite, and the manifest lists it for information.
    """

    brick: Brick
    used: Mapping[str, int] = field(default_factory=dict)
    packed: bool = True


@dataclass(frozen=True)
class SuiteModel:
    """A model of a suite: its structure, without its weights.

    It is cut where it is timed, because only the framework there can rewrite it.

    Attributes:
        model: The structure. Its tensors have new names. Only those constants have values on which
            the work depends.
        signature: Signature of the whole model that it stands for.
    """

    model: CanonicalModel
    signature: str

    @classmethod
    def of(cls, cut: CutModel) -> Self:
        """Structure of a model, which reveals no values of weights, including quantized ones.

        The name of a model in a collection is kept; the path of a file is not.
        """
        model = cut.model
        every = range(len(model.layers))
        collection, colon, _ = model.source.partition(":")
        source = model.source if colon and "/" not in collection else ""
        exact = extract(model, every, model.name, exact=True)
        kept = extract(model, every, model.name).constants.keys()
        constants = {
            name: value
            for name, value in exact.constants.items()
            # Small weights of quantized layers are integers as well, but never have 64 bits.
            if name in kept or value.size == 1 or value.dtype == "int64"
        }
        structure = replace(exact, constants=constants, source=source)
        return cls(structure, cut.whole.signature)


@dataclass(frozen=True)
class Suite:
    """Networks that are packed to be timed on another machine.

    Attributes:
        cut: How bricks were cut, and are composed.
        models: Models, which are cut where they are timed; empty for a suite of bricks.
        bricks: Bricks.
        omitted: Bricks that cannot run alone, or could not be written.
        unread: Models and bricks of the folder that could not be read.
        seed: Seed of the weights in the files of bricks; ``None`` for files without weights.
    """

    cut: Cut
    models: Sequence[SuiteModel] = ()
    bricks: Sequence[SuiteBrick] = ()
    omitted: Sequence[Failure] = ()
    unread: Sequence[Failure] = ()
    seed: int | None = None

    @classmethod
    def of_models(cls, cut: Cut, models: Iterable[CutModel], bricks: Iterable[Brick]) -> Self:
        """Suite of whole structures, with a list of their bricks."""
        models = list(models)
        return cls(
            cut,
            tuple(map(SuiteModel.of, models)),
            tuple(
                SuiteBrick(
                    each,
                    {m.model.name: m.counts[each.signature] for m in models
                     if each.signature in m.counts},
                    packed=False,
                )
                for each in bricks
            ),
        )  # fmt: skip


# The readme of a suite, for its recipient.

README = "README.txt"

_TEXT = Path(__file__).parent / "readme.txt"

_STRUCTURES = "It reveals how models are built, but none of their weights."
_BRICKS = "It reveals parts of models, but none of their weights."


def readme(suite: Suite) -> str:
    """Text of the readme of a suite."""
    holds = _STRUCTURES if suite.models else _BRICKS
    return _TEXT.read_text(encoding="utf-8").format(holds=holds)


MANIFEST = "manifest.json"
SCHEMA_VERSION = 2
"""Version of the manifest's form; suites of any other version are refused."""

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
        sha256: Hash of the file; empty where there is none.
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
        cut: How bricks were cut.
        bricks: Distinct bricks.
        models: Models.
        seed: Seed of the weights in the files; ``None`` for files without weights.
    """

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
    if version < SCHEMA_VERSION:
        raise DLBricksError(f"{folder} was made by an older DLBricks", hint=HINT)
    _check(path, fields, "checksum", *_HASH)
    try:
        unchanged = checksum(fields) == fields["checksum"]
    except RecursionError as error:  # writing JSON may need one level more than reading it
        raise _wrong(path, "it is nested too deeply") from error
    if not unchanged:
        raise _wrong(path, "it was changed after it was written")
    for name, (valid, wanted) in _FIELDS.items():
        _check(path, fields, name, valid, wanted)
    bricks = tuple(_entries(path, fields["bricks"], "brick", _BRICK))
    models = tuple(_entries(path, fields["models"], "model", _MODEL))
    _check_different(path, [entry.signature for entry in bricks])
    _check_different(path, [entry.name for entry in models])
    _check_different(path, [entry.file for entry in (*bricks, *models) if entry.file])
    cut = Cut(fields["composer"], fields["split"], fields["granularity"])
    return Manifest(cut, bricks, models, fields["seed"])


def checksum(fields: Mapping[str, Any]) -> str:
    """Hash of all fields of a manifest except the hash itself."""
    others = {name: value for name, value in fields.items() if name != "checksum"}
    return hashlib.sha256(canonical_json(others).encode()).hexdigest()


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
_SHORT.maxstring = _SHORT.maxother = 80  # characters of a value in an error


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

_BRICK: _Checks = {
    "signature": _IDENTITY,
    "file": (_is_nothing_or(_is_in(BRICKS)), f"{_FILE} {BRICKS}"),
    "sha256": (_is_nothing_or(_HASH[0]), _HASH[1]),
}

_MODEL: _Checks = {
    "signature": _IDENTITY,
    "file": (_is_in(MODELS), f"{_FILE} {MODELS}"),
    "sha256": _HASH,
    "name": (_is_name, "the name of a model"),
    "source": (_is_text, "the name of a model in a collection"),
}
