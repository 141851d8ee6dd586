"""Importers: from model files and named models to the IR."""

from dlbricks_core.importers.base import (
    NO_OPTIONS,
    Importer,
    ImportOptions,
    ModelCollection,
    ModelNotes,
    parse_shape,
)

__all__ = [
    "NO_OPTIONS",
    "ImportOptions",
    "Importer",
    "ModelCollection",
    "ModelNotes",
    "parse_shape",
]
