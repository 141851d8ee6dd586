"""The key of a private suite, which holds the secrets of the suite and stays with its owner."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dlbricks_core.bricks import STRATEGIES, BrickSet, CutModel
from dlbricks_core.errors import DLBricksError, ModelError, or_room
from dlbricks_core.files import content
from dlbricks_core.ir import CanonicalModel, packed, unpacked
from dlbricks_core.limits import LimitError, parsed

SCHEMA_VERSION = 1
"""Version of the key's fields."""

_MOST_BYTES = 1 << 30
"""Maximum bytes of a key."""

_HINT = "Give the file that was written beside the suite. No other file can replace it."


@dataclass(frozen=True)
class Key:
    """Key to a private suite: it composes the figures of the suite's bricks."""

    #: Name of the backend that rewrote the models; empty where they were cut as they are.
    backend: str
    composer: str  #: Name of the composer.
    strategy: str  #: Name of the split strategy.
    granularity: int  #: Maximum number of layers in a brick.
    models: Sequence[CanonicalModel]  #: Structures of the models.
    #: Graph that each model was cut from, in the order of the models.
    graphs: Sequence[CanonicalModel]
    #: Whether a sequence with weights that the model has just read is a separate brick.
    rereading: bool

    @classmethod
    def of(cls, brickset: BrickSet, composer: str, backend: str) -> Self:
        """Key to the models of a brick set."""
        return cls(
            backend,
            composer,
            brickset.strategy,
            brickset.granularity,
            [cut.model for cut in brickset.models],
            [cut.graph for cut in brickset.models],
            brickset.rereading,
        )

    def brickset(self) -> BrickSet:
        """The models, cut as they were for the suite."""
        graphs = dict(enumerate(self.graphs)) if self.backend else {}
        return BrickSet.of(
            self.models, self.granularity, self.strategy, graphs, rereading=self.rereading
        )

    def write(self, path: Path) -> None:
        """Writes the key to a file that only the owner may read.

        Raises:
            DLBricksError: If the file cannot be written, or exists already: without its key, a
                suite is worthless.
        """
        text = json.dumps(self._fields(), indent=1) + "\n"
        try:
            _write_new(path, text)
        except FileExistsError as error:
            raise DLBricksError(
                f"{path} exists already", hint="Keep it, and name another file for the key."
            ) from error
        except OSError as error:
            raise DLBricksError(
                f"{path} cannot be written: {error.strerror}",
                hint=or_room(error, "Choose another file."),
            ) from error

    def _fields(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "about": "Key of a private suite of DLBricks. It reveals the models: keep it.",
            "backend": self.backend,
            "composer": self.composer,
            "split": self.strategy,
            "granularity": self.granularity,
            "rereading": self.rereading,
            "models": [
                {
                    "name": cut.model.name,
                    "signature": cut.whole.signature,
                    "bricks": dict(cut.counts),
                    "structure": _text(packed(cut.model)),
                    "graph": "" if cut.graph is cut.model else _text(packed(cut.graph)),
                }
                for cut in self._cuts()
            ],
        }

    def _cuts(self) -> list[CutModel]:
        return self.brickset().models


def _write_new(path: Path, text: str) -> None:
    """Writes a file that only the owner may read. Nothing is left of one that has no room."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_key(path: Path) -> Key:
    """Reads a key from a file.

    Raises:
        DLBricksError: If the file cannot be read, is not a key, or was changed.
    """
    try:
        fields = parsed(content(path, _MOST_BYTES))
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    except LimitError as error:
        raise DLBricksError(f"{path} holds {error}", hint=error.limit.hint) from error
    except (ValueError, RecursionError) as error:
        raise DLBricksError(f"{path} is not a key: it is not JSON", hint=_HINT) from error
    version = fields.get("schema_version") if isinstance(fields, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DLBricksError(f"{path} was made by a newer DLBricks", hint="Upgrade DLBricks.")
    try:
        key = _key(fields)
    except (
        ArithmeticError, KeyError, TypeError, ValueError, AttributeError, ModelError
    ) as error:  # fmt: skip
        raise DLBricksError(f"{path} is not a key of a private suite", hint=_HINT) from error
    told = [entry["bricks"] for entry in fields["models"]]
    if [dict(cut.counts) for cut in key.brickset().models] != told:
        raise DLBricksError(
            f"{path} does not match the bricks of its models",
            hint="It was changed, or written by a DLBricks that cuts models in another way.",
        )
    return key


def _key(fields: Mapping[str, Any]) -> Key:
    if fields["split"] not in STRATEGIES or not fields["models"]:
        raise ValueError("no such way to cut, or no model")
    models = [_model(entry, "structure") for entry in fields["models"]]
    graphs = [
        _model(entry, "graph") if entry["graph"] else model
        for entry, model in zip(fields["models"], models, strict=True)
    ]
    return Key(
        str(fields["backend"]),
        str(fields["composer"]),
        fields["split"],
        int(fields["granularity"]),
        models,
        graphs,
        bool(fields["rereading"]),
    )


def _model(entry: Mapping[str, Any], part: str) -> CanonicalModel:
    try:
        data = base64.b64decode(entry[part], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{part} is damaged") from error
    return unpacked(data, name=str(entry["name"]))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
