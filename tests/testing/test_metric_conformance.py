"""The core's own metrics pass the suite, on ONNX Runtime."""

import pytest
from dlbricks_quantities.cold_start import ColdStart
from dlbricks_quantities.load_time import LoadTime
from dlbricks_quantities.peak_memory import PeakMemory
from dlbricks_testing import MetricConformance

onnxruntime = pytest.importorskip("dlbricks_onnxruntime.backend")


@pytest.mark.process
class TestColdStart(MetricConformance):
    plugin = ColdStart
    backend = onnxruntime.OnnxruntimeBackend
    framework_modules = ("onnxruntime",)


@pytest.mark.process
class TestLoadTime(MetricConformance):
    plugin = LoadTime
    backend = onnxruntime.OnnxruntimeBackend
    framework_modules = ("onnxruntime",)


@pytest.mark.process
class TestPeakMemory(MetricConformance):
    plugin = PeakMemory
    backend = onnxruntime.OnnxruntimeBackend
    framework_modules = ("onnxruntime",)
