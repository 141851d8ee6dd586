"""Writes suites completely or not at all."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlbricks_core.bricks import Brick
from dlbricks_core.errors import DLBricksError, or_room
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel, packed, save_onnx, to_onnx
from dlbricks_core.limits import FILES
from dlbricks_core.sanitize import sanitized, shortened
from dlbricks_core.values import materialize
from dlbricks_core.version import __version__
from dlbricks_suite.folder.manifest import (
    BRICKS,
    LONGEST_NAME,
    MANIFEST,
    MODELS,
    MOST_BYTES,
    README,
    SCHEMA_VERSION,
    Suite,
    SuiteBrick,
    SuiteModel,
    checksum,
    readme,
)

_INCOMPLETE = ".incomplete"
"""Subfolder in which files are written before they move to their final place."""

_LONGEST_NAME = 60
"""Most characters of a model's name in the name of its file."""

_ABOUT = {
    True: "The files are structures of models without weights. They are cut where they are timed: "
    "frameworks rewrite models, each in its own way. The bricks listed here are cut from the "
    "models as they are; 'used' is the number of occurrences in a model.",
    False: "The files are bricks: short layer sequences, each to be timed once.",
}
"""Description of a suite's content, by whether the suite holds models."""


def write_suite(suite: Suite, folder: Path) -> Suite:
    """Writes a suite. Even after an interruption, the folder is complete or empty.

    Args:
        suite: The suite. With a seed, the files of bricks contain weights generated from the seed;
            otherwise no weights.
        folder: Folder of the suite. It is created if missing, and must not hold a suite already.

    Returns:
        The written suite. Bricks that cannot be written are among the omitted ones.

    Raises:
        DLBricksError: If the folder cannot be written, or holds a suite already, or if there would
            be more files than the limit.
    """
    check_unused(folder)
    number = len(suite.models) + sum(each.packed for each in suite.bricks)
    if number > FILES.most:
        raise DLBricksError(f"the suite would have {number:,} networks, {FILES.words}", FILES.hint)
    with _complete_or_not(folder) as incomplete:
        models = [_model(each, i, incomplete) for i, each in enumerate(suite.models, start=1)]
        bricks: list[tuple[SuiteBrick, dict[str, Any]]] = []
        omitted = list(suite.omitted)
        for each in suite.bricks:
            reason = each.brick.opaque or _written(each, suite.seed, incomplete)
            if reason:
                omitted.append(Failure(", ".join(each.brick.operators), reason, "write"))
            else:
                bricks.append((each, _brick(each, incomplete)))
        written = replace(suite, bricks=[each for each, _ in bricks], omitted=omitted)
        fields = _manifest(written, models, [entry for _, entry in bricks])
        text = json.dumps({**fields, "checksum": checksum(fields)}, indent=1)
        if len(text) >= MOST_BYTES:
            raise DLBricksError(
                f"the suite's manifest would have more than {MOST_BYTES >> 20} MiB, and nobody "
                "would read it",
                hint="Write a suite for each model, or shorter bricks.",
            )
        (incomplete / MANIFEST).write_text(text + "\n", encoding="utf-8")
        (incomplete / README).write_text(readme(written), encoding="utf-8")
    return written


def check_unused(folder: Path) -> None:
    """Rejects a folder that already holds a suite, so that two suites never mix.

    Raises:
        DLBricksError: If the folder holds a manifest, or cannot be read.
    """
    try:
        used = (folder / MANIFEST).exists()
    except OSError as error:
        raise _unwritable(folder, error) from error
    if used:
        raise DLBricksError(
            f"{folder} already holds a suite", hint="Name another folder or remove it."
        )


def _unwritable(folder: Path, error: OSError) -> DLBricksError:
    return DLBricksError(
        f"{folder} cannot be written: {error.strerror or error}",
        hint=or_room(error, "Choose another folder."),
    )


@contextmanager
def _complete_or_not(folder: Path) -> Iterator[Path]:
    """A temporary folder whose files move to a folder once all of them are written.

    Raises:
        DLBricksError: If the files cannot be written.
    """
    created = False
    incomplete = folder / _INCOMPLETE
    try:
        created = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(incomplete, ignore_errors=True)  # left over from a run that was killed
        incomplete.mkdir()
        yield incomplete
        # The manifest comes last: without it, the next run starts again.
        for path in sorted(incomplete.iterdir(), key=lambda path: path.name == MANIFEST):
            path.replace(folder / path.name)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(incomplete, ignore_errors=True)
        if created:
            with suppress(OSError):
                folder.rmdir()  # unless the folder is in use by now


def _model(each: SuiteModel, number: int, folder: Path) -> dict[str, Any]:
    """Writes a model's structure. Returns its entry in the manifest."""
    model = each.model
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.name)[:_LONGEST_NAME].strip(".-") or "model"
    path = folder / MODELS / f"{number:03}-{name}.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed(model))
    return {
        "name": shortened(sanitized(model.name), LONGEST_NAME - len("...")),
        "source": model.source,
        "signature": each.signature,
        **_file(path, folder),
        "layers": len(model.layers),
        **_ends(model),
    }


def _written(each: SuiteBrick, seed: int | None, folder: Path) -> str:
    """Writes a brick if the suite holds it. Returns the reason if writing fails."""
    if not each.packed:
        return ""
    path = _path(each.brick, folder)
    path.parent.mkdir(exist_ok=True)
    model = each.brick.model
    try:
        if seed is None:
            path.write_bytes(packed(model))
        else:
            save_onnx(to_onnx(model, materialize(model, seed).weights), path)
    except DLBricksError as error:
        return error.message
    except MemoryError:
        return "ran out of memory"
    return ""


def _path(brick: Brick, folder: Path) -> Path:
    return folder / BRICKS / f"{brick.signature}.onnx"


def _brick(each: SuiteBrick, folder: Path) -> dict[str, Any]:
    """Entry of a brick in the manifest."""
    brick = each.brick
    file = _file(_path(brick, folder), folder) if each.packed else {"file": "", "sha256": ""}
    return {
        "signature": brick.signature,
        **file,
        "layers": list(brick.operators),
        **_ends(brick.model),
        **({"used": dict(each.used)} if each.used else {}),
    }


def _ends(model: CanonicalModel) -> dict[str, Any]:
    return {
        "inputs": [str(model.tensors[name]) for name in model.inputs],
        "outputs": [str(model.tensors[name]) for name in model.outputs],
        "weight_bytes": model.weight_bytes,
    }


def _file(path: Path, folder: Path) -> dict[str, str]:
    return {
        "file": path.relative_to(folder).as_posix(),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _manifest(
    suite: Suite, models: list[dict[str, Any]], bricks: list[dict[str, Any]]
) -> dict[str, Any]:
    cut = suite.cut
    return {
        "schema_version": SCHEMA_VERSION,
        "producer": f"dlbricks {__version__}",
        "about": _ABOUT[bool(suite.models)],
        "composer": cut.composer,
        "split": cut.strategy,
        "granularity": cut.granularity,
        "seed": suite.seed,
        "models": models,
        "bricks": bricks,
        "omitted": [{"layers": f.subject, "reason": f.reason} for f in suite.omitted],
    }
