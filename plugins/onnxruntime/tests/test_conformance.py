"""ONNX Runtime passes the suite that every backend must pass."""

from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_testing import BackendConformance


class TestOnnxruntimeBackend(BackendConformance):
    plugin = OnnxruntimeBackend
    framework_modules = ("onnxruntime",)
