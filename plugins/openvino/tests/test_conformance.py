"""OpenVINO passes the suite that every backend must pass."""

from typing import ClassVar

import pytest

pytest.importorskip("openvino")

from dlbricks_openvino.backend import OpenvinoBackend
from dlbricks_testing import BackendConformance

_NARROW = "OpenVINO computes int64 in 32 bits"


class TestOpenvinoBackend(BackendConformance):
    plugin = OpenvinoBackend
    framework_modules = ("openvino",)
    # OpenVINO itself chooses 16 bits where the processor has them.
    option_tolerances: ClassVar = {"precision=openvino": 1e-2}
    unsupported_cases: ClassVar = {"cast_to_integers": _NARROW}
    unsupported_values: ClassVar = {
        "large_integers": _NARROW,
        "large_integers_compared": _NARROW,
        "large_integers_moved": _NARROW,
    }
