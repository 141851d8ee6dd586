"""The plugin passes the suite that every backend must pass."""

from dlbricks_reference.backend import ReferenceBackend
from dlbricks_testing import BackendConformance


class TestReferenceBackend(BackendConformance):
    plugin = ReferenceBackend
    framework_modules = ("onnx.reference",)
