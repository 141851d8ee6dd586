"""Importer of ONNX files."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core import importers, ir
from dlbricks_core.errors import Border, ModelError
from dlbricks_core.importers.base import NO_OPTIONS, FileNotes, Importer, ImportOptions
from dlbricks_core.importers.formats import HEAD_BYTES, kind_of
from dlbricks_core.ir import RawModel
from dlbricks_core.ir.limits import MAX_FILE_BYTES, SMALL_FILE_BYTES

if TYPE_CHECKING:
    import onnx

# Reads ONNX files into protobufs, without the data of large weights.


def read_proto(path: Path) -> onnx.ModelProto:
    """Protobuf of a file, without its external data and the data of large weights in large files.

    Raises:
        ModelError: If it is missing, unreadable, too large, or no ONNX model.
    """
    # A command whose models were all imported before needs none of these.
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    from dlbricks_core.ir.lean import check_messages

    if path.is_dir():
        raise ModelError(
            f"{path} is a folder, not an ONNX file", hint=f"Name a file in it: {path}/*.onnx"
        )
    try:
        raw = _content(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path} does not exist", hint="Check the path's spelling.") from error
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror}", hint="Check its permissions."
        ) from error
    with Border(str(path)):
        check_messages(raw)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(raw)
    except DecodeError as error:
        raise ModelError(
            f"{path} is not an ONNX model, or is truncated",
            hint="Fetch or export it again; compare its size with the original's.",
        ) from error
    # Protobuf accepts many foreign files, but every ONNX model has these two fields.
    if not proto.ir_version or not proto.HasField("graph"):
        raise ModelError(
            f"{path} is not an ONNX model",
            hint="It contains something else, perhaps a tensor or another framework's model.",
        )
    return proto


def _content(path: Path) -> bytes:
    """Bytes of a file that may be a model; of a large file, without the data of large weights.

    Raises:
        ModelError: If it is certainly something else, or too large.
        OSError: If it cannot be read.
    """
    # Opening a pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is not a regular file", hint="Name a copy in a file.")
        kind = kind_of(file.read(HEAD_BYTES))
        if kind is not None:
            raise ModelError(f"{path} is not an ONNX model, but {kind.name}", hint=kind.hint)
        if not status.st_size:
            raise ModelError(f"{path} is empty", hint="Fetch or export it again.")
        if status.st_size > MAX_FILE_BYTES:
            raise ModelError(
                f"{path} has {status.st_size / 1e9:.1f} GB; protobuf reads files of up to 2 GB",
                hint="Save it with the weights in a file of their own: "
                "onnx.save(model, path, save_as_external_data=True)",
            )
        if status.st_size <= SMALL_FILE_BYTES:
            file.seek(0)
            return file.read(status.st_size)
        from dlbricks_core.ir.lean import without_weights  # imports onnx

        with mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ) as mapped:
            return without_weights(mapped)


class OnnxImporter(Importer):
    """Reader of ``.onnx`` and ``.pb`` files; it does not read the values of large weights."""

    name = "onnx"
    suffixes = (".onnx", ".pb")

    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a file into a raw model, as its producer wrote it.

        Raises:
            ModelError: If it is missing, unreadable, or no ONNX model.
        """
        return ir.read_model(
            importers.read_proto(path), name=path.stem, source=str(path), base_dir=path.parent
        )

    def describe(self, path: Path) -> FileNotes:
        """Notes from the file's metadata, whose keys are those of the ONNX standard or near them.

        Raises:
            ModelError: If the file is missing, unreadable, or no ONNX model.
        """
        proto = importers.read_proto(path)
        metadata = {each.key.lower().replace("-", "_"): each.value for each in proto.metadata_props}
        found = {
            name: next((metadata[key] for key in keys if metadata.get(key)), "")
            for name, keys in _METADATA.items()
        }
        producer = f"{proto.producer_name} {proto.producer_version}".strip()
        return FileNotes(**found, producer=producer)


_METADATA = {
    "licence": ("model_license", "license", "model_licence", "licence"),
    "author": ("model_author", "author"),
    "task": ("task", "model_task", "pipeline_tag"),
}
"""Keys of an ONNX file's metadata for each note, those of the standard first."""
