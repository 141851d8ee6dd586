"""The version of a plugin's code, of distributions that are really on the path."""

import sys
from pathlib import Path

import pytest

from dlbricks_core.backends import Backend
from dlbricks_core.plugins import Plugin, discover

INIT, BACKEND = "some_plugin/__init__.py", "some_plugin/inner/backend.py"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with a package, and the distribution that ships it."""
    for path in INIT, BACKEND:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("some_", "company"))]:
        del sys.modules[name]


def install(site: Path, *files: str, version="1.2"):
    """Writes what pip leaves of a distribution that put these files there."""
    info = site / f"dlbricks_some-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: dlbricks-some\nVersion: {version}"
    )
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def version(module="some_plugin.inner.backend", number="1.2"):
    return Plugin("backend", "some", f"{module}:Some", "dlbricks-some", number).code_version


def test_an_installed_plugin_has_the_version_of_its_distribution(site):
    install(site, INIT, BACKEND)
    assert version() == "1.2"
    (site / BACKEND).write_text("X = 2\n")
    assert version() == "1.2"


@pytest.mark.parametrize("files", [(), ("elsewhere/__init__.py",)])
def test_each_edit_of_an_editable_install_makes_another_version(site, files):
    install(site, *files)
    first = version()
    number, _, digits = first.partition("+")
    assert number == "1.2"
    assert len(digits) == 8
    assert int(digits, 16) >= 0
    assert version() == first
    (site / "some_plugin/notes.txt").write_text("no code")
    assert version() == first
    (site / BACKEND).write_text("X = 2\n")
    second = version()
    assert second != first
    (site / BACKEND).rename((site / BACKEND).with_name("other.py"))
    assert len({first, second, version()}) == 3


def test_code_that_hides_an_installed_plugin_has_another_version(
    site, tmp_path_factory, monkeypatch
):
    install(site, INIT, BACKEND)
    other = tmp_path_factory.mktemp("tree")
    (other / "some_plugin").mkdir()
    (other / INIT).write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(other))
    assert version().startswith("1.2+")


def test_a_plugin_may_be_one_module_or_lie_in_a_namespace(site):
    install(site)
    (site / "some_module.py").write_text("X = 1\n")
    for name in "one", "two":
        (site / "company" / name).mkdir(parents=True)
        (site / "company" / name / "__init__.py").write_text("X = 1\n")
    alone, inner = version("some_module"), version("company.one.backend")
    (site / "company/two/__init__.py").write_text("X = 2\n")
    assert (version("some_module"), version("company.one.backend")) == (alone, inner)
    (site / "company/one/__init__.py").write_text("X = 2\n")
    (site / "some_module.py").write_text("X = 2\n")
    assert version("some_module") != alone
    assert version("company.one.backend") != inner


def test_a_local_version_stays_a_valid_version(site):
    install(site, version="1.2+cpu")
    assert version(number="1.2+cpu").startswith("1.2+cpu.")


def test_all_installed_plugins_have_a_version():
    found = discover("backend", Backend)
    assert found
    for plugin in found:
        assert plugin.code_version.partition("+")[0] == plugin.version


def test_reading_the_version_imports_no_code(site):
    install(site)
    (site / INIT).write_text("raise RuntimeError('imported')\n")
    assert version().startswith("1.2+")
