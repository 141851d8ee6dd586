"""The core's own importer and collection pass the suites."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
from onnx import numpy_helper

from dlbricks_core.commands import own
from dlbricks_core.importers import ImportOptions
from dlbricks_core.importers.decoders.collection import LanguageModels
from dlbricks_core.importers.light import LightModels
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.testing import (
    CollectionConformance,
    CommandConformance,
    ImporterConformance,
)

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


class TestInspect(CommandConformance):
    plugin = own.Inspect

    @classmethod
    def target(cls) -> str:
        return "dlbricks_core.commands.own:Inspect"


class TestLightModels(CollectionConformance):
    plugin = LightModels
    framework_modules = ("onnx.reference",)
    sample = "light_squeezenet"


class TestLanguageModels(CollectionConformance):
    plugin = LanguageModels
    framework_modules = ("onnx.reference",)
    sample = "smollm2-135m"
    options = ImportOptions(batch=1)
    dims: ClassVar = {"sequence": 1, "past": 16}
