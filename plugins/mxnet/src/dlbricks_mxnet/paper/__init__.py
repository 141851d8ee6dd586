"""The 50 networks of Table 1 of the DLBricks paper, as ``paper:1`` to ``paper:50``.

:mod:`~dlbricks_mxnet.paper.catalogue` lists the networks, and
:mod:`~dlbricks_mxnet.paper.published` the paper's figures; neither imports the framework. Each
other module has one family of architectures, written for Gluon.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.importers import NO_OPTIONS, ImportOptions, ModelCollection, ModelNotes
from dlbricks_core.ir import RawModel
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.paper.catalogue import ENTRIES
from dlbricks_mxnet.paper.published import PUBLISHED


class PaperModels(ModelCollection):
    """The paper's networks by their number in Table 1; their weights do not matter."""

    name = "paper"
    isolated = True
    published = PUBLISHED

    def names(self) -> Sequence[str]:
        """Their numbers."""
        return tuple(ENTRIES)

    def describe(self, name: str) -> ModelNotes | None:
        """Title, task, inputs and the number of layers that the paper counts."""
        entry = ENTRIES.get(name)
        if entry is None:
            return None
        return ModelNotes(entry.title, entry.task, entry.inputs, entry.layers)

    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Builds the network and lowers it; the batch is 1 unless the options say otherwise.

        Raises:
            ModelError: If there is no network of that number.
        """
        entry = ENTRIES.get(name)
        if entry is None:
            raise self.unknown(name)
        mx = import_mxnet()
        from dlbricks_mxnet.importer import from_block

        shapes = {
            key: options.shapes.get(key, (options.batch or 1, *shape))
            for key, shape in entry.inputs.items()
        }
        # A separate name manager: the names do not depend on other models in the process.
        with mx.name.NameManager():
            return from_block(entry.build(), shapes, name=entry.label, source=f"{self.name}:{name}")
