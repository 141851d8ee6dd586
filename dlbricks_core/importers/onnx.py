"""ONNX files."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from dlbricks_core.errors import ModelError
from dlbricks_core.importers.base import NO_OPTIONS, Importer, ImportOptions
from dlbricks_core.ir import Model, read_model

_LFS_POINTER = b"version https://git-lfs"


class OnnxImporter(Importer):
    """Reads ``.onnx`` and ``.pb`` files; weights stay where they are."""

    name = "onnx"
    suffixes = (".onnx", ".pb")

    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> Model:
        """Reads a file, as its producer wrote it.

        Raises:
            ModelError: If it is missing, unreadable, or no ONNX model.
        """
        return read_model(read_proto(path), name=path.stem, source=str(path), base_dir=path.parent)


def read_proto(path: Path) -> onnx.ModelProto:
    """The protobuf in a file, without its external data.

    Raises:
        ModelError: If it is missing, unreadable, or no ONNX model.
    """
    if path.is_dir():
        raise ModelError(
            f"{path} is a folder, not an ONNX file", hint=f"Name a file in it: {path}/*.onnx"
        )
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"{path} does not exist", hint="Check the path's spelling.") from error
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror}", hint="Check its permissions."
        ) from error
    if raw.startswith(_LFS_POINTER):
        raise ModelError(
            f"{path} is a Git LFS pointer, not the model itself", hint="Fetch it: git lfs pull"
        )
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(raw)
    except DecodeError as error:
        raise ModelError(
            f"{path} is not an ONNX model, or is truncated",
            hint="Fetch or export it again; compare its size with the original's.",
        ) from error
    # Protobuf accepts much that is not meant for it; an ONNX model always has these two.
    if not proto.ir_version or not proto.HasField("graph"):
        raise ModelError(
            f"{path} is not an ONNX model",
            hint="It holds something else, perhaps a tensor or another framework's model.",
        )
    return proto
