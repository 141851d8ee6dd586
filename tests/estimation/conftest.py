"""Stacks of equal blocks on a synthetic backend."""

from importlib import import_module
from pathlib import Path

import pytest

from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.adaptive.wholes import WholeRuns
from dlbricks_core.estimation.run import run
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@pytest.fixture
def synthetic(monkeypatch):
    """The backend of ``helpers/synthetic_backend.py``."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
    import synthetic_backend

    found = Plugin("backend", "synthetic", synthetic_backend.TARGET, "tests", "1",
                   synthetic_backend.SyntheticBackend)  # fmt: skip
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda *_: found)
    monkeypatch.setattr(import_module("dlbricks_core.bricks.split"), "SHORT_BYTES", 10_000)
    return synthetic_backend


@pytest.fixture
def ran(monkeypatch):
    """Names of the models that ran, in order."""
    names = []
    begin = WholeRuns.run

    def noted(self, cut, burst, *, harvest):
        names.append(cut.model.name)
        begin(self, cut, burst, harvest=harvest)

    monkeypatch.setattr(WholeRuns, "run", noted)
    return names


@pytest.fixture
def stack(builder):
    """A model of equal blocks, named by their number."""

    def built(blocks, name=None, size=2000):
        b = builder((2, size))
        x = b.input
        for _ in range(blocks):
            x = b.add("Relu", b.add("Add", x, b.weight(*b.shape)))
            x = b.add("Tanh", b.add("Add", x, b.weight(*b.shape)))
        return b.model(x, name=name or f"stack{blocks}")

    return built


@pytest.fixture
def adapted(tmp_path):
    """A run with a store that stays; its result."""

    def result(models, precision=0.1, *, end_to_end=False, observer=None, **request):
        asked = Request.of("synthetic", threads=1, precision=precision, condition="hot", **request)
        cut = CutOptions.chosen(None, None, LEARNED_COMPOSER)
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            return run(models, cut, asked, store, observer or Observer(), end_to_end=end_to_end)

    return result
