"""Conformance suites: what every plugin must pass, by kind.

A plugin's author subclasses a suite and names the plugin; pytest runs the rest::

    from dlbricks_testing import BackendConformance
    from dlbricks_reference.backend import ReferenceBackend

    class TestReference(BackendConformance):
        plugin = ReferenceBackend
        framework_modules = ("onnx.reference",)

Frameworks are only ever imported in worker processes, as the engine does it: suites of
several backends in one pytest run do not disturb each other, and a crash of a framework
is a failed test.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlbricks_testing.backend import BackendConformance
    from dlbricks_testing.estimation import (
        ComposerConformance,
        MetricConformance,
        PredictorConformance,
    )
    from dlbricks_testing.importer import CollectionConformance, ImporterConformance
    from dlbricks_testing.interface import ColumnConformance, CommandConformance
    from dlbricks_testing.suite import DescriptionConformance

__all__ = [
    "BackendConformance",
    "CollectionConformance",
    "ColumnConformance",
    "CommandConformance",
    "ComposerConformance",
    "DescriptionConformance",
    "ImporterConformance",
    "MetricConformance",
    "PredictorConformance",
]

_MODULES = {
    "BackendConformance": "dlbricks_testing.backend",
    "CollectionConformance": "dlbricks_testing.importer",
    "ColumnConformance": "dlbricks_testing.interface",
    "CommandConformance": "dlbricks_testing.interface",
    "ComposerConformance": "dlbricks_testing.estimation",
    "DescriptionConformance": "dlbricks_testing.suite",
    "ImporterConformance": "dlbricks_testing.importer",
    "MetricConformance": "dlbricks_testing.estimation",
    "PredictorConformance": "dlbricks_testing.estimation",
}

# Before the modules are imported: asserts in them are to be as telling as in test files.
if "pytest" in sys.modules:
    sys.modules["pytest"].register_assert_rewrite(*_MODULES.values())


def __getattr__(name: str) -> Any:
    """Imports a suite when it is first used: the workers of suites need none, and no pytest."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
