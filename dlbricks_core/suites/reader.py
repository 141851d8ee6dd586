"""Service that reads untrusted networks in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dlbricks_core.bricks import Brick, extract, signature
from dlbricks_core.errors import ModelError
from dlbricks_core.importers.onnx import read_proto
from dlbricks_core.ir import CanonicalModel, read_model, unpacked
from dlbricks_core.passes import normalize


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
