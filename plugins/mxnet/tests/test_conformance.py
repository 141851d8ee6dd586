"""MXNet's backend, importer and model zoo pass the suites that every plugin must pass."""

from pathlib import Path

from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import MxnetImporter
from dlbricks_mxnet.paper import PaperModels
from dlbricks_mxnet.zoo import GluonZoo
from dlbricks_testing import BackendConformance, CollectionConformance, ImporterConformance

from dlbricks_core.importers import ImportOptions


class TestMxnetBackend(BackendConformance):
    plugin = MxnetBackend
    framework_modules = ("mxnet",)


class TestMxnetImporter(ImporterConformance):
    plugin = MxnetImporter
    framework_modules = ("mxnet",)
    options = ImportOptions(shapes={"data": (1, 3, 16, 16)})

    def sample(self, folder: Path) -> Path:
        mx = import_mxnet()
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Conv2D(64, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(10))
        net.initialize()
        net.hybridize()
        net(mx.nd.zeros((1, 3, 16, 16)))
        net.export(str(folder / "sample"))
        return folder / "sample-symbol.json"


class TestGluonZoo(CollectionConformance):
    plugin = GluonZoo
    framework_modules = ("mxnet",)
    sample = "squeezenet1.1"


class TestPaperModels(CollectionConformance):
    plugin = PaperModels
    framework_modules = ("mxnet",)
    sample = "38"
