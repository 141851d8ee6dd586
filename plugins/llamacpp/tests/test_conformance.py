"""llama.cpp passes the part of the backends' suite that needs no ONNX layers."""

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: it has to be built")

from dlbricks_llamacpp.backend import LlamaBackend
from dlbricks_testing import DescriptionConformance


class TestLlamaBackend(DescriptionConformance):
    plugin = LlamaBackend
    framework_modules = ("llama_cpp",)
