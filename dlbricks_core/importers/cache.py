"""Cache of imported models: a model that has not changed is imported once.

An entry contains a model in canonical form, or the hash and the metadata of its file, and the state
of every file that was read for it: the model file, its external data, the Python modules of a
factory. An entry is valid as long as these files, the importer, the options and the installed
packages are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from functools import cache
from importlib.util import find_spec, source_from_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import platformdirs

from dlbricks_core.files import content
from dlbricks_core.ir.tensors import ML_DTYPES

if TYPE_CHECKING:
    from dlbricks_core.importers.base import LoadOptions

MOST_BYTES = 512 << 20
"""Maximum bytes of the cache; beyond it, the least recently used entries are deleted."""

_HASHED_BYTES = 1 << 20
"""Maximum bytes of a file whose content is hashed: rewriting the same content keeps the entry."""

_FORMAT = "dlbricks import 3"


@dataclass(frozen=True)
class FileState:
    """State of a file when it was read.

    Attributes:
        path: Path of the file.
        stamp: Its size, times and number, which change with every write.
        digest: Hash of its content; empty for a large file.
    """

    path: str
    stamp: str
    digest: str

    @classmethod
    def of(cls, path: Path) -> FileState | None:
        """Present state of a file; ``None`` if it cannot be read."""
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                return None
            return cls(str(path), _stamp(found), _digest(path, found))
        except OSError:
            return None

    def holds(self) -> bool:
        """Whether the file is the same. Its content is compared only if the file was written."""
        path = Path(self.path)
        try:
            found = path.stat()
            return _stamp(found) == self.stamp or self.digest == _digest(path, found) != ""
        except OSError:
            return False


def _stamp(found: os.stat_result) -> str:
    # Programs may set the time of modification back, but not the time of change.
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"


def _digest(path: Path, found: os.stat_result) -> str:
    if found.st_size > _HASHED_BYTES or not stat.S_ISREG(found.st_mode):
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ReadFiles:
    """Record of every file that this process opens, from the creation of the record on.

    Python cannot remove an audit hook, so use this class in a separate process. Files of Python and
    of installed packages are left out: the cache identifies them by their versions.
    """

    def __init__(self) -> None:
        self._opened: dict[str, None] = {}
        self._modules: dict[str, FileState] = {}
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str):
            self._opened[arguments[0]] = None

    def states(self) -> list[FileState]:
        """States of all files opened since the last call, and of all modules opened before.

        Modules of earlier calls count, because Python reads a module only once.
        """
        paths = {_source(Path(opened).absolute()) for opened in self._opened}
        ours = (p for p in sorted(paths) if not str(p).startswith(_installed_folders()))
        new = (FileState.of(path) for path in ours if str(path) not in self._modules)
        states = {each.path: each for each in new if each is not None}
        self._opened.clear()  # including the files hashed here
        self._modules |= {path: each for path, each in states.items() if path.endswith(".py")}
        return list({**self._modules, **states}.values())


def _source(path: Path) -> Path:
    """The source of a compiled Python module; any other file itself."""
    if path.suffix == ".pyc":
        with suppress(ValueError):
            return Path(source_from_cache(path))
    return path


@cache
def _installed_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names}
    folders |= {entry for entry in sys.path if Path(entry).name in _PACKAGES}
    return ("/proc/", "/sys/", "/dev/", *(f"{folder}{os.sep}" for folder in folders))


_PACKAGES = frozenset({"site-packages", "dist-packages"})


class ImportCache:
    """A folder with one entry for each model, importer and set of options.

    If an entry cannot be read or written, the model is imported again.

    Args:
        folder: Folder of the entries; ``None`` for the folder of the user's cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or _users_folder()

    def key(
        self, target: str, source: str | Path, options: LoadOptions, asked: str = "load"
    ) -> str:
        """Key of an entry.

        Args:
            target: ``"module:Class"`` of the importer or collection.
            source: The file, or the name in the collection.
            options: Options of reading the model.
            asked: Name of the method of the host.
        """
        # Collections alone write models in the form of a program's files.
        form = {"form": ""} if isinstance(source, Path) else {}
        parts = {
            "asked": asked,
            "source": str(source.absolute()) if isinstance(source, Path) else source,
            # A collection may import the user's modules.
            "where": [] if isinstance(source, Path) else [str(Path.cwd()), *sys.path],
            "given": str(source),
            "target": target,
            "options": asdict(options) | form,
            "environment": _environment(
                target.partition(":")[0].partition(".")[0], tuple(sys.path)
            ),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> Any:
        """Entry of a key; ``None`` if it is missing, or if a file has changed."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                if not _is_valid(file):
                    return None
                found = _Unpickler(file).load()
            os.utime(path)
        except Exception:  # noqa: BLE001 - whatever is wrong with an entry, it does not count
            return None
        return found

    def holds(self, key: str) -> bool:
        """Whether there is an entry of a key, and no file of it has changed."""
        try:
            with self._path(key).open("rb") as file:
                return _is_valid(file)
        except Exception:  # noqa: BLE001 - as in get
            return False

    def put(self, key: str, files: Iterable[FileState], found: object) -> None:
        """Writes an entry, with the states of the files that were read for it."""
        header = {"format": _FORMAT, "files": [list(astuple(each)) for each in files]}
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                temporary = Path(file.name)
                try:
                    file.write(json.dumps(header).encode() + b"\n")
                    pickle.dump(found, file, pickle.HIGHEST_PROTOCOL)
                    file.close()
                    temporary.replace(self._path(key))
                except BaseException:
                    temporary.unlink(missing_ok=True)
                    raise
            self._prune()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.import"

    def _prune(self) -> None:
        entries = [(p.stat(), p) for p in self._folder.glob("*.import")]
        total = sum(found.st_size for found, _ in entries)
        for found, path in sorted(entries, key=lambda entry: entry[0].st_mtime):
            if total <= MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= found.st_size


def _is_valid(entry: BinaryIO) -> bool:
    """Whether an entry has this format, and no file of it has changed; reads its first line."""
    header = json.loads(entry.readline())
    return header["format"] == _FORMAT and all(FileState(*each).holds() for each in header["files"])


_NAME_BYTES = 1 << 12
"""Maximum bytes of a name that is read."""


def keep_names(names: Mapping[str, str]) -> None:
    """Writes names of models by signature to the user's cache folder.

    The names stay on this machine: a store has no names of files.
    """
    with suppress(OSError):
        for signature, name in names.items():
            path = _name_path(signature)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name, "utf-8", "backslashreplace")


def kept_names(signatures: Iterable[str]) -> dict[str, str]:
    """Last names of models that this machine measured, by signature; unknown ones are left out."""
    found = {}
    for signature in signatures:
        with suppress(OSError):
            found[signature] = content(_name_path(signature), _NAME_BYTES).decode(
                "utf-8", "replace"
            )
    return {signature: name for signature, name in found.items() if name}


def _name_path(signature: str) -> Path:
    # A signature in a store may be any text.
    file = hashlib.sha256(signature.encode("utf-8", "replace")).hexdigest()
    return _users_folder().with_name("names") / file


def _users_folder() -> Path:
    try:
        return platformdirs.user_cache_path("dlbricks") / "imports"
    except RuntimeError:  # a user without a home folder has no cache
        return Path(os.devnull) / "imports"


class _Unpickler(pickle.Unpickler):
    """Unpickler for models only: it refuses everything that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in _CLASSES.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a model")
        return super().find_class(module, name)


_CLASSES = {
    "dlbricks_core.importers.base": {"FileNotes", "Imported"},
    "dlbricks_core.passes.options": {"OpenDimension"},
    "dlbricks_core.ir.model": {
        *("CanonicalModel", "Folded", "Layer", "RawModel", "Subgraph", "TensorValue"),
    },
    "dlbricks_core.ir.tensors": {"TensorSpec"},
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": {"_reconstruct"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.multiarray": {"_reconstruct"},
    "numpy._core.numeric": {"_frombuffer"},
    "ml_dtypes": set(ML_DTYPES.values()),
}


@cache
def _environment(package: str, folders: tuple[str, ...]) -> str:
    """Hash of what an import depends on: Python, installed packages, DLBricks and the importer."""
    installed = {name for folder in folders for name in _installed(folder)}
    parts = [sys.version, *sorted(installed), *_code("dlbricks_core"), *_code(package)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _installed(folder: str) -> tuple[str, ...]:
    """Names of installed packages in a folder, with their versions."""
    path = Path(folder)
    found = path.iterdir() if path.is_dir() else ()
    return tuple(each.name for each in found if each.suffix in (".dist-info", ".egg-info"))


@cache
def _code(package: str) -> tuple[str, ...]:
    """Size and time of change of every source file of a package, which may be under development."""
    found = find_spec(package)
    folders = (found.submodule_search_locations or ()) if found else ()
    return tuple(sorted(state for folder in folders for state in _sources(folder)))


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:  # pathlib takes several times as long
        for entry in entries:
            if entry.is_dir():
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                state = entry.stat()
                yield f"{entry.path} {state.st_size} {state.st_mtime_ns}"
