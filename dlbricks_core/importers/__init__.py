"""Importers: from model files and named models to the IR."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.importers.base import (
        NO_OPTIONS,
        FileNotes,
        Imported,
        Importer,
        ImportOptions,
        LoadOptions,
        ModelCollection,
        ModelNotes,
        Publication,
        PublishedFigure,
        parse_shape,
    )
    from dlbricks_core.importers.host import canonical, with_outputs
    from dlbricks_core.importers.onnx import read_proto

__all__ = [
    "NO_OPTIONS",
    "FileNotes",
    "ImportOptions",
    "Imported",
    "Importer",
    "LoadOptions",
    "ModelCollection",
    "ModelNotes",
    "Publication",
    "PublishedFigure",
    "canonical",
    "parse_shape",
    "read_proto",
    "with_outputs",
]

lazy(__name__)
