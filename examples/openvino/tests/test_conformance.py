"""OpenVINO passes the suite that every backend must pass."""

from dlbricks_openvino.backend import OpenvinoBackend

from dlbricks_core.testing import BackendConformance

_NARROW = "OpenVINO computes int64 in 32 bits"


class TestOpenvinoBackend(BackendConformance):
    plugin = OpenvinoBackend
    framework_modules = ("openvino",)
    unsupported_cases = {
        "add_integers": _NARROW,
        "cast_from_integers": _NARROW,
        "cast_to_integers": _NARROW,
        "equal_integers": _NARROW,
    }
