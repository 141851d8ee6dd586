"""Commands import only what they use."""

import subprocess
import sys

import pytest

from dlbricks_core import bricks, facts

pytestmark = pytest.mark.process

HEAVY = {
    "alembic", "archspec", "jinja2", "matplotlib", "networkx", "onnx", "pandas",
    "plotly", "psutil", "scipy", "sqlalchemy", "rich.progress",
}  # fmt: skip
"""Packages that no command needs to show a model that was imported before."""

SCRIPT = """
import sys
from dlbricks_core.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules))
"""


def modules_after(*arguments):
    """Modules that a command has imported, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], check=True, capture_output=True, text=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.fixture
def imported(monkeypatch, tmp_path):
    """A model that was imported before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    modules_after("show", "onnx:light_squeezenet")
    return "onnx:light_squeezenet"


def test_a_known_model_is_shown_without_heavy_packages(imported):
    found = modules_after("show", imported)
    assert not HEAVY & found
    assert "dlbricks_core.passes.normalize" not in found
    assert "subprocess" not in found


def test_an_estimate_imports_no_code_that_runs_hides_or_rewrites_models(imported, tmp_path):
    store = str(tmp_path / "none.db")
    found = modules_after("estimate", imported, "--backend", "onnxruntime", "--store", store)
    assert not {
        "alembic", "dlbricks_core.analysis.shortening.short", "dlbricks_core.passes.normalize",
        "dlbricks_serving.serving.report.words",
        "dlbricks_postgresql.database", "dlbricks_suite.folder.manifest",
        "dlbricks_prediction.survey.draw", "dlbricks_core.values.materialize",
        "dlbricks_serving.serving.run", "jinja2", "matplotlib", "networkx", "onnx",
    } & found  # fmt: skip


def test_the_help_needs_no_numpy():
    assert not {*HEAVY, "numpy", "rich"} & modules_after("--help")


def test_an_export_goes_before_the_module_of_its_name():
    assert callable(bricks.split)
    assert bricks.split is sys.modules["dlbricks_core.bricks.split"].split


def test_all_exports_are_there():
    for package in (bricks, facts):
        assert set(package.__all__) <= set(dir(package))
        for name in package.__all__:
            getattr(package, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_this"):
        bricks.nothing_like_this  # noqa: B018
