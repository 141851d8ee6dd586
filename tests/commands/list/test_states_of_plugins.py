"""States of plugins: usable, broken, or without their framework."""

from dlbricks_core.commands.list import actions
from dlbricks_core.plugins import Plugin


def status_of(backend):
    return actions._status(Plugin("backend", "faulty", "m:C", "tests", "1", loaded=backend))


def test_a_missing_framework_is_not_a_broken_plugin(faulty):
    class Missing(faulty.FaultyBackend):
        distribution = "a-framework-that-nobody-has"

        def version(self):
            return self.installed_version()

    found = status_of(Missing)
    assert found.status == "not installed"
    assert "needs a-framework-that-nobody-has, which is not installed" in found.problem
    assert found.cure == "pip install a-framework-that-nobody-has"


def test_a_framework_that_fails_is_broken(faulty):
    class Failing(faulty.FaultyBackend):
        distribution = "click"

        def version(self):
            raise OSError("no such library")

    found = status_of(Failing)
    assert found.status == "broken"
    assert "no such library" in found.problem


def test_a_usable_backend_is_ok(faulty):
    assert status_of(faulty.FaultyBackend).status == "ok"
