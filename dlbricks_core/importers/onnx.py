"""Importer of ONNX files."""

from __future__ import annotations

from pathlib import Path

from dlbricks_core import importers, ir
from dlbricks_core.importers.base import NO_OPTIONS, FileNotes, Importer, ImportOptions
from dlbricks_core.ir import RawModel


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
