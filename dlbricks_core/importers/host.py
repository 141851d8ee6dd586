"""The service that loads models inside a process of its own."""

from __future__ import annotations

from pathlib import Path

from dlbricks_core.importers.base import ImportOptions
from dlbricks_core.ir import Model
from dlbricks_core.plugins import load_object


class ImportHost:
    """Calls importers and collections; runs inside the worker."""

    def load_file(self, target: str, path: Path, options: ImportOptions) -> Model:
        """Reads a file with the importer that ``"module:Class"`` names."""
        model: Model = load_object(target)().load(path, options)
        return model

    def load_name(self, target: str, name: str, options: ImportOptions) -> Model:
        """Builds a named model of the collection that ``"module:Class"`` names."""
        model: Model = load_object(target)().load(name, options)
        return model
