"""The Gluon model zoo by name."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.importers import NO_OPTIONS, ImportOptions, ModelCollection
from dlbricks_core.ir import RawModel
from dlbricks_mxnet.framework import import_mxnet

# Written down, for a list of names must not cost an import of MXNet; a test compares it.
_NAMES = (
    *(f"resnet{depth}_v{v}" for v in (1, 2) for depth in (18, 34, 50, 101, 152)),
    *(f"vgg{depth}{norm}" for norm in ("", "_bn") for depth in (11, 13, 16, 19)),
    "alexnet",
    *(f"densenet{depth}" for depth in (121, 161, 169, 201)),
    "squeezenet1.0",
    "squeezenet1.1",
    "inceptionv3",
    *(f"mobilenet{v}{width}" for v in ("", "v2_") for width in ("1.0", "0.75", "0.5", "0.25")),
)


class GluonZoo(ModelCollection):
    """All 34 image classifiers of ``mxnet.gluon.model_zoo.vision``, offline."""

    name = "mxnet"
    isolated = True

    def names(self) -> Sequence[str]:
        """Names as the zoo spells them."""
        return _NAMES

    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Builds the network and lowers it; the batch is 1 unless the options say otherwise.

        Raises:
            ModelError: If the zoo has no such network.
        """
        if name not in _NAMES:
            raise self.unknown(name)
        mx = import_mxnet()
        from dlbricks_mxnet.importer import from_block

        shape = options.shapes.get("data", (options.batch or 1, 3, *image_size(name)))
        # A separate name manager: the names do not depend on other models in the process.
        with mx.name.NameManager():
            block = mx.gluon.model_zoo.vision.get_model(name)
            return from_block(block, {"data": shape}, name=name, source=f"{self.name}:{name}")


def image_size(name: str) -> tuple[int, int]:
    """Height and width of the images that the network was made for."""
    return (299, 299) if name == "inceptionv3" else (224, 224)
