"""Samples of a backend under development: after an edit of its code, they are not used again."""

import shutil
from pathlib import Path

import pytest

from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.run import run
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

HELPER = Path(__file__).parents[1] / "helpers" / "faulty_backend.py"


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A backend whose code is in a file that tests may edit, and the file."""
    code = tmp_path / "edited_backend.py"
    shutil.copy(HELPER, code)
    monkeypatch.syspath_prepend(str(tmp_path))
    import edited_backend

    found = Plugin(
        "backend", "faulty", "edited_backend:FaultyBackend", "tests", "0.1.0",
        edited_backend.FaultyBackend,
    )  # fmt: skip
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda kind, name, base: found)
    return code


@pytest.fixture
def measured(tmp_path, builder):
    """Number of networks that a run times, and the version of the plugin."""
    b = builder((3,))
    b.relu(b.input)
    model = b.model()

    def timed():
        request = Request.of("faulty", threads=1, runs=3)
        with ResultStore.open(tmp_path / "results.db") as store:
            outcome = run([model], CutOptions(), request, store, Observer()).ledger
        return outcome.measured, request.setup.plugin

    return timed


def test_an_edited_backend_measures_again(plugin, measured):
    count, version = measured()
    assert count == 2
    assert measured() == (0, version)
    original = plugin.read_text()
    plugin.write_text(f"{original}\n# faster now\n")
    count, edited = measured()
    assert count == 2
    assert edited != version
    assert {each.partition("+")[0] for each in (version, edited)} == {"0.1.0"}
    plugin.write_text(original)
    assert measured() == (0, version)
