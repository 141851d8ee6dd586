"""PyTorch passes the suites that every backend, importer and collection must pass."""

import os

import pytest
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.factories import TorchFactories
from dlbricks_pytorch.importer import PytorchImporter
from dlbricks_testing import BackendConformance, CollectionConformance, ImporterConformance

from dlbricks_core.worker import WorkerProcess


class TestPytorchBackend(BackendConformance):
    plugin = PytorchBackend
    framework_modules = ("torch",)
    # The mode reaches torch.compile: test_pytorch_timer.py.
    untested_options = {  # noqa: RUF012
        "compile=max-autotune": "each mode compiles for 10 s, and compile=default is tried"
    }


class TestPytorchImporter(ImporterConformance):
    plugin = PytorchImporter
    framework_modules = ("torch", "onnxscript")

    def sample(self, folder):
        import torch

        module = torch.nn.Sequential(torch.nn.Linear(64, 2000), torch.nn.GELU())
        program = torch.export.export(module.eval(), (torch.randn(1, 64),))
        torch.export.save(program, folder / "sample.pt2")
        return folder / "sample.pt2"


FACTORY = """
import torch

def head():
    module = torch.nn.Sequential(torch.nn.Linear(64, 2000), torch.nn.GELU())
    return module.eval(), (torch.randn(1, 64),)
"""


class TestTorchFactories(CollectionConformance):
    plugin = TorchFactories
    framework_modules = ("torch", "onnxscript")
    sample = "sample_networks:head"

    @pytest.fixture(scope="class")
    @classmethod
    def worker(cls, tmp_path_factory):
        """With a module of factories among those that can be imported."""
        folder = tmp_path_factory.mktemp("factories")
        (folder / "sample_networks.py").write_text(FACTORY)
        # By itself: these tests run alone, too, without what all tests share.
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
        with WorkerProcess(
            "dlbricks_core.importers.host:ImportHost", {"PYTHONPATH": path}
        ) as process:
            yield process
