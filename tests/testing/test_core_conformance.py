"""The core's own plugins pass the suites."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from dlbricks_prediction.from_atlas import FromAtlas
from dlbricks_testing import (
    CollectionConformance,
    CommandConformance,
    ComposerConformance,
    ImporterConformance,
    PredictorConformance,
)
from onnx import numpy_helper

from dlbricks_core.commands import own
from dlbricks_core.compose import Parallel, Segmented, Sequential
from dlbricks_core.compose.learned import Learned
from dlbricks_core.compose.similar import Similar
from dlbricks_core.importers import ImportOptions
from dlbricks_core.importers.light import LightModels
from dlbricks_core.importers.onnx import OnnxImporter

pytestmark = pytest.mark.process

GRAPH = """<ir_version: 10, opset_import: ["" : 17]>
net (float[batch,16] x) => (float[batch,512] y) {
    a = MatMul(x, w1)
    b = Relu(a)
    y = Add(b, w2)
}"""


class TestOnnxImporter(ImporterConformance):
    plugin = OnnxImporter
    framework_modules = ("onnx.reference",)
    options = ImportOptions(batch=1)

    def sample(self, folder: Path) -> Path:
        proto = onnx.parser.parse_model(GRAPH)
        rng = np.random.default_rng(0)
        for name, shape in {"w1": (16, 512), "w2": (512,)}.items():
            value = rng.normal(size=shape).astype(np.float32)
            proto.graph.initializer.append(numpy_helper.from_array(value, name))
        onnx.save(proto, folder / "sample.onnx")
        return folder / "sample.onnx"


class TestShow(CommandConformance):
    plugin = own.ShowCommand

    @classmethod
    def target(cls) -> str:
        return "dlbricks_core.commands.own:ShowCommand"


class TestLightModels(CollectionConformance):
    plugin = LightModels
    framework_modules = ("onnx.reference",)
    sample = "light_squeezenet"


class TestSequential(ComposerConformance):
    plugin = Sequential


class TestParallel(ComposerConformance):
    plugin = Parallel


class TestLearned(ComposerConformance):
    plugin = Learned


class TestSegmented(ComposerConformance):
    plugin = Segmented


class TestSimilar(ComposerConformance):
    plugin = Similar


class TestFromAtlas(PredictorConformance):
    plugin = FromAtlas
