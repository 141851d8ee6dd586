"""Requests for another system: which versions and threads are asked for, and what is said of it."""

from dataclasses import replace

import pytest

from dlbricks_core.backends import Traits
from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import Observation
from dlbricks_core.ir import unpacked
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.known_setups import nearest_setup
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_core.store import ResultStore


@pytest.fixture
def setup_of(asked):
    """The asked setup with other versions."""
    return lambda version, **more: replace(asked.setup, version=version, **more)


@pytest.mark.parametrize(
    ("version", "known", "expected"),
    [
        ("1.23.2", ["1.23.2", "1.20.0"], "1.23.2"),
        ("1.23.2", ["1.20.0", "1.22.1"], "1.22.1"),
        ("1.9.1", ["1.23.0", "1.10.0"], "1.10.0"),
        ("2.0", ["1.9", "2.9+cpu"], "2.9+cpu"),
        ("odd", ["1.9"], "1.9"),
        ("1.9", [], "1.9"),
    ],
)
def test_the_nearest_version_stands_in(setup_of, version, known, expected):
    found = nearest_setup(setup_of(version), [setup_of(each) for each in known])
    assert found == setup_of(expected)


def test_versions_that_were_measured_alike_come_first(setup_of):
    known = [setup_of("1.23.1", threads=8), setup_of("1.9", plugin="0.1.0+ab")]
    found = nearest_setup(setup_of("1.23.2"), known)
    assert found == setup_of("1.9", plugin="0.1.0+ab")


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def other(asked):
    return replace(asked.system, cpu="another", available_cores=6)


@pytest.fixture
def installed(asked, monkeypatch):
    """A request of the user for another system, with the backend that is installed here."""
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda kind, name, base: plugin)
    plugin = Plugin("backend", "faulty", "none:None", "tests", "0.1.0", type(asked.backend))
    return lambda system, *known, **more: Request.of(
        "faulty", system=system, known=lambda: known, **more
    )


def test_threads_are_the_cores_of_the_asked_system(installed, other):
    assert installed(other).setup.threads == 6
    assert installed(replace(other, available_cores=0)).setup.threads == 1
    assert installed(other, threads=2).setup.threads == 2


def test_only_what_was_measured_on_the_asked_system_changes_the_version(installed, other):
    setup = installed(other).setup
    old = replace(setup, version="0.1")
    assert installed(other, (old, "elsewhere")).installed is None
    found = installed(other, (old, other.fingerprint), (setup, "elsewhere"))
    assert (found.setup, found.installed) == (old, setup)
    assert installed(None, (old, found.system.fingerprint)).setup.version == setup.version


def test_this_system_is_no_other_one(installed, asked):
    assert installed(asked.system).elsewhere is None


def bricks_of(model):
    return BrickSet.of([model], 128, "segments", rereading=True).bricks


def keep(store, request, model):
    """Stores samples of all segments of a model."""
    for signature in bricks_of(model):
        for number in range(request.runs):
            store.add_samples(request.key(signature, "brick"), Observation("s", number, (2.0,)))


def test_another_version_is_named(installed, other, store, residual):
    setup, model = installed(other).setup, residual()
    old = installed(other, (replace(setup, version="0.1"), other.fingerprint), runs=3)
    keep(store, old, model)
    found = estimate([model], None, old, store)
    assert found.models[0].origin == {"stored": 1.0}
    note = text(*found.ledger.notes)
    assert note.startswith("figures are for faulty 0.1, the version measured on that system; ")
    plugin = replace(setup, plugin="0.1.0+ab")
    found = estimate([model], None, installed(other, (plugin, other.fingerprint)), store)
    assert "figures are for the plugin faulty 0.1.0+ab" in text(found.ledger.notes[-1])


def test_the_store_tells_that_a_backend_runs_models_as_they_are(asked, store, residual):
    """Nobody else does where its plugin is not installed."""
    model = residual()
    cut_models([model], CutOptions.chosen(None, None, None), asked, Observer(), store=store)
    signature = CutModel(model, (), model).whole.signature
    kept = store.rewrite(signature, asked.setup, asked.fingerprint)
    assert bricks_of(unpacked(kept, name="again")).keys() == bricks_of(model).keys()
    keep(store, asked, model)
    asked.backend.traits = Traits(rewrites=True)
    (found,) = estimate([model], None, asked, store).models
    assert (found.composer, found.origin, found.notes) == ("segmented", {"stored": 1.0}, ())


def test_a_model_whose_rewrite_is_not_kept_says_so(asked, store, residual):
    asked.backend.traits = Traits(rewrites=True)
    (found,) = estimate([residual()], None, asked, store).models
    assert "does not report the graph that it executes: the store does not have it" in text(
        found.notes[0]
    )
