"""Conformance suites: what every backend, importer and collection must pass.

A plugin's author subclasses a suite and names the plugin; pytest runs the rest::

    from dlbricks_core.testing import BackendConformance
    from dlbricks_reference.backend import ReferenceBackend

    class TestReference(BackendConformance):
        plugin = ReferenceBackend
        framework_modules = ("onnx.reference",)

Needs pytest (``pip install pytest``), which nothing else in ``dlbricks_core`` imports.
Frameworks are only ever imported in worker processes, as the engine does it: suites of
several backends in one pytest run do not disturb each other, and a crash of a framework
is a failed test.
"""

import pytest

# Before the modules are imported: asserts in them are to be as telling as in test files.
pytest.register_assert_rewrite(
    "dlbricks_core.testing.backend",
    "dlbricks_core.testing.importer",
    "dlbricks_core.testing.collection",
)

from dlbricks_core.testing.backend import BackendConformance  # noqa: E402
from dlbricks_core.testing.collection import CollectionConformance  # noqa: E402
from dlbricks_core.testing.importer import ImporterConformance  # noqa: E402

__all__ = ["BackendConformance", "CollectionConformance", "ImporterConformance"]
