from dlbricks_first_run.metric import FirstRun
from dlbricks_reference.backend import ReferenceBackend
from dlbricks_testing import MetricConformance


class TestFirstRun(MetricConformance):
    plugin = FirstRun
    backend = ReferenceBackend
    framework_modules = ("onnx.reference",)
