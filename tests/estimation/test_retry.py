"""Bricks that failed before: reported again, and tried again on request."""

from dataclasses import replace

import pytest

from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.run import run
from dlbricks_core.facts.note import warning
from dlbricks_core.measure import measuring
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process


@pytest.fixture
def outcome(faulty, monkeypatch, tmp_path, builder):
    """Result of measuring a Relu and a layer that fails until the file "well" exists."""
    plugin = Plugin("backend", "faulty", faulty.TARGET, "tests", "1", faulty.FaultyBackend)
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda kind, name, base: plugin)
    monkeypatch.setenv("FAULTY_WELL", str(tmp_path / "well"))
    b = builder((3,))
    b.add("IllForNow", b.relu(b.input))
    b.layers[-1] = replace(b.layers[-1], domain="faulty")
    model = b.model()

    def measured(**more):
        options = Request.of("faulty", threads=1, runs=3, **more)
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            return run([model], CutOptions(), options, store, Observer(), end_to_end=False).ledger

    return measured


def test_only_failed_bricks_are_tried_again(outcome, tmp_path):
    assert "still ill" in next(iter(outcome().failures.values()))
    (again,) = outcome().failures.values()
    assert "still ill (earlier; retry_failed tries again)" in again
    (ill,) = outcome(retry_failed=True).failures.values()
    assert ill.endswith("still ill")
    (tmp_path / "well").touch()
    well = outcome(retry_failed=True)
    assert (well.failures, well.reused, well.measured) == ({}, 1, 1)


def test_a_warning_says_that_cores_were_apart(outcome, tmp_path, monkeypatch):
    class Apart:
        warnings = (warning("cpus-far-apart", share=1.0, times=2.0),)

        def gather(self):
            pass

    asked = []
    monkeypatch.setattr(measuring.Cores, "of", lambda threads: asked.append(threads) or Apart())
    assert Apart.warnings[0] in outcome().warnings
    assert asked == [1]


def test_a_forced_run_that_fails_keeps_old_samples(outcome, tmp_path):
    (tmp_path / "well").touch()
    before = outcome().measurements
    assert len(before) == 2
    (tmp_path / "well").unlink()
    forced = outcome(force=True)
    (ill,) = forced.failures
    assert forced.failures[ill].endswith("still ill")
    (well,) = forced.measurements
    old, new = (
        {each.taken_at for each in m[well].observations} for m in (before, forced.measurements)
    )
    assert old.isdisjoint(new)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        assert store.get([ill])[ill].values == before[ill].values
