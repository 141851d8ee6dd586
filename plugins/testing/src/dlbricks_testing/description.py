"""Tests of a backend's description before anything runs, with and without its framework."""

from __future__ import annotations

from typing import ClassVar

from dlbricks_testing.suite import ConformanceSuite, fresh

#: Describes a backend in a new process, where nothing has used it.
_DESCRIBE = """
import json, sys
from dlbricks_core.backends import BackendSettings
from dlbricks_core.plugins import load_object
target, *modules = sys.argv[1:]
backend = load_object(target)()
found = {
    "environments": [dict(backend.environment(BackendSettings(threads=n))) for n in (1, 2)],
    "imported": [m for m in modules if m in sys.modules],
}
found["version"] = backend.version()
found["imported_by_version"] = [m for m in modules if m in sys.modules]
print(json.dumps(found))
"""

#: Calls ``version`` and ``timer`` in a new process that cannot find the framework.
_WITHOUT = """
import importlib.metadata, json, sys
from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import BackendError, PluginError
from dlbricks_core.plugins import load_object
target, distribution, *modules = sys.argv[1:]
find = importlib.metadata.distribution
def missing(name):
    if name == distribution:
        raise importlib.metadata.PackageNotFoundError(name)
    return find(name)
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
importlib.metadata.distribution = missing
sys.meta_path.insert(0, Blocked())
backend = load_object(target)()
hints = {}
for method, call in {
    "version": backend.version, "timer": lambda: backend.timer(BackendSettings())
}.items():
    try:
        call()
    except (PluginError, BackendError) as error:
        hints[method] = [type(error).__name__, error.message, error.hint]
print(json.dumps(hints))
"""


class DescriptionConformance(ConformanceSuite):
    """Tests of the description: the class that an entry point names.

    Of :class:`~dlbricks_testing.BackendConformance`, a backend that runs no ONNX layers
    (``Traits(blocks_only=True)``) can pass this part.
    """

    kind: ClassVar[str] = "backend"

    def test_importing_the_class_imports_no_framework(self) -> None:
        """Neither importing the class nor asking for its version imports the framework."""
        found = fresh(_DESCRIBE, self.target(), *self.framework_modules)
        assert found["imported"] == []
        assert found["imported_by_version"] == [], "version() must not import the framework"
        assert isinstance(found["version"], str)
        assert found["version"]

    def test_environment_maps_names_to_text(self) -> None:
        """Names and values of environment variables are text."""
        found = fresh(_DESCRIBE, self.target(), *self.framework_modules)
        for environment in found["environments"]:
            assert all(isinstance(value, str) for value in environment.values()), environment

    def test_a_missing_framework_is_named_with_the_cure(self) -> None:
        """``version`` and ``timer`` raise PluginError with a hint such as ``pip install``."""
        distribution = self.plugin.distribution
        found = fresh(_WITHOUT, self.target(), distribution, *self.framework_modules)
        assert set(found) == {"version", "timer"}, "both must raise PluginError"
        for kind, message, hint in found.values():
            assert kind == "PluginError", message
            assert "install" in hint

    def test_options_are_well_formed(self) -> None:
        """Every option has a name, a default among distinct choices, and a line of help."""
        for name, option in self.plugin.options.items():
            assert name, "an option has no name"
            assert "=" not in name
            assert option.default in option.choices, name
            assert len(set(option.choices)) == len(option.choices), name
            assert option.help.strip(), name
            assert "\n" not in option.help, name

    def test_default_models_can_be_named(self) -> None:
        """Default models are texts such as users type: ``collection:name`` or a path."""
        assert all(isinstance(name, str) and name for name in self.plugin.default_models)
