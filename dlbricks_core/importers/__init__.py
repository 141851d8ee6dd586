"""Importers: from model files and named models to the IR."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.importers.base import (
        NO_OPTIONS,
        FileNotes,
        Importer,
        ImportOptions,
        ModelCollection,
        ModelNotes,
        parse_shape,
    )
    from dlbricks_core.importers.host import canonical, with_outputs
    from dlbricks_core.importers.imported import Imported
    from dlbricks_core.importers.options import LoadOptions
    from dlbricks_core.importers.protobuf import read_proto
    from dlbricks_core.importers.published import Publication, PublishedFigure

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
