"""The networks that ship with the onnx package for its own tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import ModelProto

from dlbricks_core.importers.base import NO_OPTIONS, ImportOptions, ModelCollection
from dlbricks_core.importers.protobuf import read_proto
from dlbricks_core.ir import RawModel, read_model

_PREFIX = "light_"
_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


class LightModels(ModelCollection):
    """Nine classifiers for 1x3x224x224 images, small files with constant weights.

    ``onnx:light_resnet50`` may be shortened to ``onnx:resnet50``.
    """

    name = "onnx"

    def names(self) -> Sequence[str]:
        """Names of the files, without the suffix."""
        return sorted(path.stem for path in _FOLDER.glob(f"{_PREFIX}*.onnx"))

    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a network by its name.

        Raises:
            ModelError: If there is no such network.
        """
        full = name if name.startswith(_PREFIX) else _PREFIX + name
        if full not in self.names():
            raise self.unknown(name)
        return read_model(light_proto(full), name=full, source=f"{self.name}:{full}")


def light_proto(name: str) -> ModelProto:
    """The protobuf of a network, by the full name of its file."""
    return read_proto(_FOLDER / f"{name}.onnx")
