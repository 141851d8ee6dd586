"""Reads suites, which may come from an untrusted source."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlbricks_core.bricks import Brick, extract, signature
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.facts import Failure
from dlbricks_core.importers.onnx import read_proto
from dlbricks_core.ir import CanonicalModel, Layer, read_model, unpacked
from dlbricks_core.passes import normalize
from dlbricks_core.worker import WorkerError, WorkerProcess
from dlbricks_suite.folder.manifest import (
    MANIFEST,
    ManifestEntry,
    Suite,
    SuiteBrick,
    SuiteModel,
    check_content,
    check_file,
    check_inside,
    read_manifest,
)

_MOST_BYTES = 2**31
"""Maximum bytes of a network's file, the limit of protobuf."""

_READ_S = 60.0
"""Maximum seconds to read a network."""

_READER = "dlbricks_suite.folder.read:NetworkReader"


def read_suite(folder: Path) -> Suite:
    """Reads and validates the suite in a folder.

    Returns:
        The suite. An opaque brick with the reason represents a brick that cannot be read. Models
        that cannot be read are among the unread ones.

    Raises:
        DLBricksError: If the folder holds no valid manifest, or no readable network.
    """
    manifest = read_manifest(folder)
    files = [entry for entry in manifest.bricks if entry.file]
    if not files and not manifest.models:
        raise DLBricksError(
            f"{folder} holds no bricks", hint=f"{MANIFEST} says why they were omitted."
        )
    with ExitStack() as opened:
        reader = _Reader(folder, opened)
        method = "read_brick" if manifest.seed is None else "read_weighted"
        found: list[tuple[ManifestEntry, Brick | DLBricksError]]
        found = [(entry, reader.read(entry, method, entry.signature)) for entry in files]
        models: list[tuple[ManifestEntry, CanonicalModel | DLBricksError]]
        models = [
            (entry, reader.read(entry, "read_model", entry.name, entry.source))
            for entry in manifest.models
        ]
    errors = [each for _, each in (*found, *models) if isinstance(each, DLBricksError)]
    if errors and len(errors) == len(found) + len(models):
        raise errors[0]
    return Suite(
        manifest.cut,
        [SuiteModel(each, entry.signature) for entry, each in models
         if isinstance(each, CanonicalModel)],
        [SuiteBrick(_unread(entry, each.message) if isinstance(each, DLBricksError) else each)
         for entry, each in found],
        unread=[Failure(entry.name, each.message, "read") for entry, each in models
                if isinstance(each, DLBricksError)],
        seed=manifest.seed,
    )  # fmt: skip


class _Reader:
    """Reads networks of a folder in a worker, because a file may crash its reader.

    Args:
        folder: Folder of the suite.
        opened: Closes the worker.
    """

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder = folder
        self._worker: WorkerProcess | None = None
        opened.callback(self._close)

    def read(self, entry: ManifestEntry, method: str, *about: str) -> Any:
        """Content of a file, or the error that prevented reading it.

        Args:
            entry: The file's entry in the manifest.
            method: Method of the service.
            *about: Further arguments of that method.
        """
        path = self._folder / entry.file
        try:
            check_inside(self._folder, path)
            check_file(path, _MOST_BYTES)
            check_content(path, entry.sha256)
            self._worker = self._worker or WorkerProcess(_READER)
            return self._worker.call(method, path, *about, timeout=_READ_S)
        except DLBricksError as error:
            if isinstance(error, WorkerError):
                self._close()
            return _naming(path, error)

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _naming(path: Path, error: DLBricksError) -> DLBricksError:
    """The error with the name of the file added."""
    if str(path) in error.message:
        return error
    return DLBricksError(f"{path}: {error.message}", error.hint)


def _unread(entry: ManifestEntry, reason: str) -> Brick:
    layer = Layer(entry.file, (), (), opaque=reason)
    return Brick(entry.signature, CanonicalModel(entry.signature, (layer,), (), (), {}))


# Service that reads untrusted networks in a process of its own.


class NetworkReader:
    """Reads untrusted files; runs inside the worker."""

    def read_weighted(self, path: Path, identity: str) -> Brick:
        """Reads a brick from an ONNX file with weights.

        Args:
            path: Path of the file.
            identity: Signature of the brick.

        Raises:
            ModelError: If the file cannot be read, or holds something else.
        """
        raw = read_model(read_proto(path), name=path.stem, base_dir=path.parent, zeros=True)
        return _identified(path, normalize(raw), identity)

    def read_brick(self, path: Path, identity: str) -> Brick:
        """Reads a brick from a file without weights.

        Args:
            path: Path of the file.
            identity: Signature of the brick.

        Raises:
            ModelError: If the file cannot be read, or holds something else.
        """
        return _identified(path, _structure(path, path.stem, ""), identity)

    def read_model(self, path: Path, name: str, source: str) -> CanonicalModel:
        """Reads a model from a file with its structure.

        Args:
            path: Path of the file.
            name: Name of the model.
            source: Name of the model in a collection, if it comes from one.

        Raises:
            ModelError: If the file cannot be read.
        """
        return _structure(path, name, source)


def _structure(path: Path, name: str, source: str) -> CanonicalModel:
    return replace(unpacked(path.read_bytes(), name=name), source=source)


def _identified(path: Path, model: CanonicalModel, identity: str) -> Brick:
    every = range(len(model.layers))
    if signature(model, every) != identity:
        raise ModelError(
            f"{path} is not the brick {identity}",
            hint="The file was changed; generate it again.",
        )
    return Brick(identity, extract(model, every, identity))
