"""Writes bricks as ONNX files for another machine, and reads such a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_core import __version__
from dlbricks_core.bricks import Brick, BrickSet, extract, materialize, signature
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers.onnx import read_proto
from dlbricks_core.ir import Model, read_model, save_onnx, to_onnx
from dlbricks_core.passes import normalize
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.results import Failure

MANIFEST = "manifest.json"
_SCHEMA_VERSION = 1


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
    models: Sequence[Model],
    cut_options: CutOptions,
    folder: Path,
    seed: int,
    observer: Observer,
) -> Folder:
    """Writes every unique brick of the models as an ONNX file, and a manifest.

    The files hold seeded values instead of the models' weights, and the manifest tells
    neither which model a brick is from nor how often it occurs.

    Args:
        models: In canonical form.
        cut_options: How to cut.
        folder: Created if it is not there; must not hold other bricks already.
        seed: Of the values.
        observer: Told of progress.

    Raises:
        DLBricksError: If the folder cannot be written or already holds a manifest.
    """
    check_unused(folder)
    brickset = BrickSet.of(models, cut_options.granularity, cut_options.strategy)
    # Sorted, so that the order does not tell where in a model a brick stands.
    bricks = [brickset.bricks[identity] for identity in sorted(brickset.bricks)]
    usable = [brick for brick in bricks if not brick.opaque]
    omitted = [Failure("", ", ".join(b.operators), b.opaque) for b in bricks if b.opaque]
    observer.stage(f"Writing {len(usable)} bricks", len(usable))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for brick in usable:
            values = materialize(brick.model, seed).weights
            save_onnx(to_onnx(brick.model, values), folder / _file_name(brick))
            observer.advance(brick.signature)
        text = json.dumps(_manifest(usable, omitted, cut_options, seed), indent=1)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise DLBricksError(
            f"{folder} cannot be written: {error.strerror}", hint="Choose another with --output."
        ) from error
    return Folder(folder, usable, omitted)


def check_unused(folder: Path) -> None:
    """Refuses a folder of generated bricks, which would be mixed with others.

    Raises:
        DLBricksError: If it holds a manifest.
    """
    if (folder / MANIFEST).exists():
        raise DLBricksError(
            f"{folder} already holds generated bricks", hint="Name another folder or remove it."
        )


def read_folder(folder: Path) -> tuple[list[Brick], CutOptions]:
    """The bricks of a generated folder and how they were cut.

    Raises:
        DLBricksError: If the folder holds no valid manifest, or a file is missing or is
            not the brick that the manifest says it is.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        version = manifest["schema_version"]
        entries = [(entry["signature"], entry["file"]) for entry in manifest["bricks"]]
        cut_options = CutOptions(manifest["granularity"], manifest["split"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DLBricksError(
            f"{folder} is not a folder of generated bricks",
            hint=f"It needs a valid {MANIFEST}; make one with: dlbricks generate MODEL -o FOLDER",
        ) from error
    if version > _SCHEMA_VERSION:
        raise DLBricksError(
            f"{folder} was made by a newer DLBricks", hint="Upgrade: pip install -U dlbricks"
        )
    return [_read_brick(folder / file, identity) for identity, file in entries], cut_options


def _read_brick(path: Path, identity: str) -> Brick:
    model = normalize(
        read_model(read_proto(path), name=path.stem, base_dir=path.parent, zeros=True)
    )
    every = range(len(model.layers))
    found = signature(model, every)
    if found != identity:
        raise ModelError(
            f"{path} is not the brick {identity}", hint="The file was changed; generate it again."
        )
    return Brick(identity, extract(model, every, identity))


def _file_name(brick: Brick) -> str:
    return f"{brick.signature}.onnx"


def _manifest(
    bricks: Sequence[Brick],
    omitted: Sequence[Failure],
    cut_options: CutOptions,
    seed: int,
) -> dict[str, Any]:
    return {
        "schema_version": _SCHEMA_VERSION,
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
        "omitted": [{"layers": f.what, "reason": f.reason} for f in omitted],
    }
