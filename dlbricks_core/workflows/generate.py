"""Writes bricks as ONNX files for another machine, and reads such a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel, Layer, save_onnx, to_onnx
from dlbricks_core.values import materialize
from dlbricks_core.version import __version__
from dlbricks_core.worker import WorkerError, WorkerProcess
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    Entry,
    check_file,
    read_manifest,
)
from dlbricks_core.workflows.observer import Observer

_INCOMPLETE = ".incomplete"
"""Folder in the target where files are written; they move to their place in the end."""

_MOST_BRICK_BYTES = 2**31
"""Most bytes of a brick's file: what protobuf takes."""

_READ_S = 60.0
"""Longest time that a brick may take to read."""


@dataclass(frozen=True)
class Folder:
    """A folder of generated bricks.

    Attributes:
        path: Where it is.
        bricks: What it holds.
        omitted: Bricks that cannot run alone.
    """

    path: Path
    bricks: Sequence[Brick]
    omitted: Sequence[Failure]


def generate(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    folder: Path,
    seed: int,
    observer: Observer,
) -> Folder:
    """Writes every unique brick of the models as an ONNX file, and a manifest.

    The files hold seeded values instead of the models' weights, and the manifest tells
    neither which model a brick is from nor how often it occurs. Whatever ends the writing,
    the folder holds a complete set with its manifest, or none.

    Args:
        models: In canonical form.
        cut_options: How to cut.
        folder: Created if it is not there; must not hold other bricks already.
        seed: Seed of the values.
        observer: Hears of progress.

    Raises:
        DLBricksError: If the folder cannot be written or already holds a manifest.
    """
    check_unused(folder)
    brickset = BrickSet.of(models, cut_options.granularity, cut_options.strategy)
    # Sorted, so that the order does not tell where in a model a brick stands.
    bricks = [brickset.bricks[identity] for identity in sorted(brickset.bricks)]
    observer.stage(f"Writing {len(bricks)} bricks", len(bricks))
    written: list[Brick] = []
    omitted: list[Failure] = []
    with _complete_or_not(folder) as incomplete:
        for brick in bricks:
            observer.advance(brick.signature)
            reason = _written(brick, seed, incomplete)
            if reason:
                omitted.append(Failure(", ".join(brick.operators), reason, "write"))
            else:
                written.append(brick)
        text = json.dumps(_manifest(written, omitted, cut_options, seed), indent=1)
        (incomplete / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return Folder(folder, written, omitted)


def _unwritable(folder: Path, error: OSError) -> DLBricksError:
    return DLBricksError(
        f"{folder} cannot be written: {error.strerror or error}",
        hint="Choose another folder.",
    )


def _written(brick: Brick, seed: int, folder: Path) -> str:
    """Writes a brick; tells why it cannot be written, if so."""
    if brick.opaque:
        return brick.opaque
    try:
        proto = to_onnx(brick.model, materialize(brick.model, seed).weights)
    except DLBricksError as error:
        return error.message
    except MemoryError:
        return "ran out of memory"
    save_onnx(proto, folder / _file_name(brick))
    return ""


@contextmanager
def _complete_or_not(folder: Path) -> Iterator[Path]:
    """A place for files that belong into a folder, and that move there when all are written.

    Raises:
        DLBricksError: If they cannot be written.
    """
    created = False
    incomplete = folder / _INCOMPLETE
    try:
        created = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(incomplete, ignore_errors=True)  # of a run that was killed
        incomplete.mkdir()
        yield incomplete
        # The manifest comes last: without it, the next run begins anew.
        for path in sorted(incomplete.iterdir(), key=lambda path: path.name == MANIFEST):
            path.replace(folder / path.name)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(incomplete, ignore_errors=True)
        if created:
            with suppress(OSError):
                folder.rmdir()  # unless it holds something now


def check_unused(folder: Path) -> None:
    """Refuses a folder of generated bricks, which would be mixed with others.

    Raises:
        DLBricksError: If it holds a manifest, or cannot be looked into.
    """
    try:
        used = (folder / MANIFEST).exists()
    except OSError as error:
        raise _unwritable(folder, error) from error
    if used:
        raise DLBricksError(
            f"{folder} already holds generated bricks", hint="Name another folder or remove it."
        )


def read_folder(folder: Path) -> tuple[list[Brick], CutOptions]:
    """The bricks of a generated folder and how they were cut.

    Returns:
        A brick for each that the manifest names, an opaque one for each that cannot be read,
        with the reason; and how they were cut.

    Raises:
        DLBricksError: If the folder holds no valid manifest or no brick that can be read.
    """
    manifest = read_manifest(folder)
    if not manifest.entries:
        raise DLBricksError(
            f"{folder} holds no bricks", hint=f"{MANIFEST} says why they were omitted."
        )
    bricks, error = [], None
    for entry, found in _read(folder, manifest.entries):
        if isinstance(found, DLBricksError):
            error = error or found
            found = _unread(entry, found.message)
        bricks.append(found)
    if error and all(brick.opaque for brick in bricks):
        raise error
    return bricks, manifest.cut_options


def _read(folder: Path, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Brick | DLBricksError]]:
    """Each brick, or why it cannot be read; in a worker, which a file may break."""
    worker: WorkerProcess | None = None
    try:
        for entry in entries:
            path = folder / entry.file
            found: Brick | DLBricksError
            try:
                check_file(path, _MOST_BRICK_BYTES)
                worker = worker or WorkerProcess("dlbricks_core.workflows.reading:BrickReader")
                found = worker.call("read", path, entry.signature, timeout=_READ_S)
            except DLBricksError as error:
                found = _naming(path, error)
                if worker is not None and isinstance(error, WorkerError):
                    worker.close()
                    worker = None
            yield entry, found
    finally:
        if worker is not None:
            worker.close()


def _naming(path: Path, error: DLBricksError) -> DLBricksError:
    """The error with the file's name in it."""
    if str(path) in error.message:
        return error
    return DLBricksError(f"{path}: {error.message}", error.hint)


def _unread(entry: Entry, reason: str) -> Brick:
    layer = Layer(entry.file, (), (), opaque=reason)
    return Brick(entry.signature, CanonicalModel(entry.signature, (layer,), (), (), {}))


def _file_name(brick: Brick) -> str:
    return f"{brick.signature}.onnx"


def _manifest(
    bricks: Sequence[Brick],
    omitted: Sequence[Failure],
    cut_options: CutOptions,
    seed: int,
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "producer": f"dlbricks {__version__}",
        "granularity": cut_options.granularity,
        "split": cut_options.strategy,
        "seed": seed,
        "bricks": [
            {
                "signature": brick.signature,
                "file": _file_name(brick),
                "layers": list(brick.operators),
                "inputs": [str(brick.model.tensors[name]) for name in brick.model.inputs],
            }
            for brick in bricks
        ],
        "omitted": [{"layers": f.subject, "reason": f.reason} for f in omitted],
    }
