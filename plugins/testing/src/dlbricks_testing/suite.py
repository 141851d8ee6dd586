"""Base of the conformance suites: the plugin under test, and tests that cannot go missing."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from importlib import metadata
from typing import Any, ClassVar

import pytest

from dlbricks_core.plugins import GROUPS, load_object


class ConformanceSuite:
    """Base of the conformance suites.

    A subclass answers the suite's questions in class attributes. It may add tests. It can neither
    replace nor skip tests of the suite.

    Attributes:
        plugin: The class under test. Required.
        framework_modules: Modules that show, when they are in ``sys.modules``, that the
            framework was imported. Required; ``()`` for a plugin without a framework.
    """

    plugin: ClassVar[type[Any]]
    framework_modules: ClassVar[tuple[str, ...]]

    #: Kind of the plugin, a key of ``GROUPS``; set by each suite.
    kind: ClassVar[str]
    #: Attributes that a subclass must set; set by each suite.
    required: ClassVar[tuple[str, ...]] = ("plugin", "framework_modules")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(f"{__package__}."):
            return
        missing = [name for name in cls.required if not hasattr(cls, name)]
        if missing:
            raise TypeError(f"{cls.__name__} does not set {', '.join(missing)}")
        changed = _changed_tests(cls)
        if changed:
            raise TypeError(
                f"{cls.__name__} replaces {', '.join(changed)}; declare in the suite's class "
                "attributes what the plugin does not support"
            )

    @classmethod
    def target(cls) -> str:
        """Name of the plugin's class as an entry point writes it, ``"module:Class"``."""
        return f"{cls.plugin.__module__}:{cls.plugin.__qualname__}"

    def test_no_test_of_the_suite_is_missing(self, request: pytest.FixtureRequest) -> None:
        """No test of the suite was deleted, replaced, or marked to be skipped or to fail."""
        assert not _changed_tests(type(self))
        # Tests of the requesting class that pytest has collected, without tests of its own.
        ours = [
            item
            for item in request.session.items
            if getattr(item, "cls", None) is request.cls and _is_of_a_suite(item)
        ]
        marks = {mark.name for item in ours for mark in item.iter_markers()}
        assert not marks & {"skip", "skipif", "xfail"}, (
            "tests of the suite may not be skipped or expected to fail"
        )

    def test_entry_point_names_the_plugin(self) -> None:
        """An installed distribution announces this class under the plugin's name."""
        entries = metadata.entry_points(group=GROUPS[self.kind], name=self.plugin.name)
        targets = {entry.value.replace(" ", "") for entry in entries}
        assert targets, f"no entry point {self.plugin.name!r} in the group {GROUPS[self.kind]!r}"
        assert len(targets) == 1, f"several plugins are called {self.plugin.name!r}: {targets}"
        assert load_object(targets.pop()) is self.plugin


def _changed_tests(cls: type[ConformanceSuite]) -> list[str]:
    """Names of the suites' tests that the class has changed or removed."""
    return [
        f"{base.__name__}.{name}"
        for base in cls.__mro__
        if base.__module__.startswith(f"{__package__}.")
        for name, test in vars(base).items()
        if name.startswith("test_") and getattr(cls, name, None) is not test
    ]


def _is_of_a_suite(item: pytest.Item) -> bool:
    function = getattr(item, "function", None)
    return getattr(function, "__module__", "").startswith(f"{__package__}.")


@cache
def fresh(script: str, *arguments: str) -> dict[str, Any]:
    """Output of a Python script that runs in a new process and prints JSON.

    Tests that ask the same question share one process.

    Args:
        script: Source code.
        *arguments: Arguments of the script, as text.
    """
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


# Tests of a backend's description before anything runs, with and without its framework.

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
