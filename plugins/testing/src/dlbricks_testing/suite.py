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
