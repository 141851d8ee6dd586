"""Service that reads bricks of others in a process of its own."""

from __future__ import annotations

from pathlib import Path

from dlbricks_core.bricks import Brick, extract, signature
from dlbricks_core.errors import ModelError
from dlbricks_core.importers.onnx import read_proto
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize


class BrickReader:
    """Reads untrusted files; runs inside the worker."""

    def read(self, path: Path, identity: str) -> Brick:
        """Brick that a file holds.

        Args:
            path: Path of the file.
            identity: Signature of the brick.

        Raises:
            ModelError: If the file cannot be read, or holds something else.
        """
        model = normalize(
            read_model(read_proto(path), name=path.stem, base_dir=path.parent, zeros=True)
        )
        every = range(len(model.layers))
        if signature(model, every) != identity:
            raise ModelError(
                f"{path} is not the brick {identity}",
                hint="The file was changed; generate it again.",
            )
        return Brick(identity, extract(model, every, identity))
