"""The networks that ship with the onnx package for its own tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core import importers, ir
from dlbricks_core.importers.base import NO_OPTIONS, ImportOptions, ModelCollection
from dlbricks_core.ir import RawModel

if TYPE_CHECKING:
    from onnx import ModelProto

_PREFIX = "light_"


class LightModels(ModelCollection):
    """Nine classifiers for 1x3x224x224 images, small files with constant weights.

    ``onnx:light_resnet50`` may be shortened to ``onnx:resnet50``.
    """

    name = "onnx"

    def names(self) -> Sequence[str]:
        """Names of the files, without the suffix."""
        return sorted(path.stem for path in _folder().glob(f"{_PREFIX}*.onnx"))

    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a network by its name.

        Raises:
            ModelError: If there is no such network.
        """
        full = name if name.startswith(_PREFIX) else _PREFIX + name
        if full not in self.names():
            raise self.unknown(name)
        return ir.read_model(light_proto(full), name=full, source=f"{self.name}:{full}")


def light_proto(name: str) -> ModelProto:
    """The protobuf of a network, by the full name of its file."""
    return importers.read_proto(_folder() / f"{name}.onnx")


@cache
def _folder() -> Path:
    """Folder of the networks, found without importing the package."""
    found = find_spec("onnx")
    assert found is not None
    return Path(str(found.origin)).parent / "backend" / "test" / "data" / "light"
