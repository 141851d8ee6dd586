"""What a user names is deleted, with what nothing else needs then, and nothing else."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from dlbricks_records.contents import Pruned, Selection, info, prune

from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    Composition,
    Machine,
    NetworkFeatures,
    Observation,
    Quantity,
    Question,
    Session,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore

OLD, NEW = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 6))
SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "here")
OLDER = replace(KEY, setup=replace(SETUP, version="1.10.0a1"))
OTHER = replace(KEY, setup=replace(SETUP, backend="torch", version="2.13.0+cpu"))
THERE = replace(KEY, subject=Subject("there", "brick"), system="there")
BAD = replace(KEY, subject=Subject("bad", "model"))


@pytest.fixture
def store(place):
    with ResultStore.open(place) as opened:
        for fingerprint in ("here", "there"):
            opened.remember_system(fingerprint, {"cpu": fingerprint})
        for name, host, system in ("old", "h1", "here"), ("new", "h2", "here"), ("t", "", "there"):
            opened.keep_session(Session(name, host, system, "0.1.0", OLD if name == "old" else NEW))
        # 1.10 is newer than 1.9, and a version of its own: texts would sort the other way.
        newest = replace(KEY, setup=replace(SETUP, version="1.10.0"))
        for key, session, moment in (
            (KEY, "old", OLD), (OLDER, "old", OLD), (newest, "old", OLD), (newest, "new", NEW),
            (OTHER, "new", NEW), (THERE, "t", NEW), (BAD, "new", NEW),
        ):  # fmt: skip
            opened.add_samples(key, Observation(session, 0, (1.5, 2.5), taken_at=moment))
        opened.record_failure(BAD, "ill")
        opened.record_failure(replace(BAD, subject=Subject("worse", "brick")), "too slow")
        opened.keep_networks(
            NetworkFeatures(name, "1", (), b"") for name in ("abc", "there", "worse")
        )
        for key in (KEY, OTHER, THERE):
            opened.keep_rewrite("model", key.setup, key.system, b"graph")
            fitted = CalibrationKey("similar", "chain", 1, LATENCY, key.setup, key.system)
            opened.keep_calibration(Calibration(fitted, {}, (), 1, "0.1.0", NEW))
        yield opened


def left(store):
    return {
        (found.question.system, found.question.setup.backend, found.question.setup.version,
         found.question.subject.signature, len(found.values), found.failure)
        for found in store.measurements()
    }  # fmt: skip


CASES = {
    "a whole system": (
        Selection((Machine("there", "", frozenset({""})),)),
        Pruned(systems=1, sessions=1, measurements=1, observations=1, networks=1, calibrations=1,
               rewrites=1),
        lambda row: row[0] == "there",
    ),
    "a backend": (
        Selection(backends=("torch",)),
        Pruned(measurements=1, observations=1, calibrations=1, rewrites=1),
        lambda row: row[1] == "torch",
    ),
    "versions that are not the newest": (
        Selection(outdated=True),
        Pruned(measurements=4, observations=3, failures=2, networks=1, calibrations=1, rewrites=1),
        lambda row: row[:2] == ("here", "mxnet") and row[2] != "1.10.0",
    ),
    "two criteria together": (
        Selection(backends=("torch",), outdated=True), Pruned(), lambda row: False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("selection", "expected", "gone"), CASES.values(), ids=CASES)
def test_what_is_named_is_deleted_and_nothing_else(store, selection, expected, gone):
    before = left(store)
    assert prune(store, selection, rehearse=True) == expected
    assert left(store) == before
    assert prune(store, selection) == expected
    assert left(store) == {row for row in before if not gone(row)}
    assert prune(store, selection) == Pruned()


def test_sessions_before_a_date_are_deleted_with_their_samples(store):
    half = datetime(2026, 3, 1, tzinfo=UTC)
    pruned = prune(store, Selection(before=half))
    assert (pruned.observations, pruned.sessions) == (3, 1)
    assert [session.id for session in store.sessions()] == ["new", "t"]
    assert ("here", "mxnet", "1.10.0", "abc", 2, None) in left(store)
    assert not any(row[2:4] == ("1.9.1", "abc") for row in left(store))


def test_failures_are_forgotten_and_samples_stay(store):
    assert prune(store, Selection(failures=True)) == Pruned(measurements=1, failures=2, networks=1)
    assert ("here", "mxnet", "1.9.1", "bad", 2, None) in left(store)
    assert all(failure is None for *_, failure in left(store))


def test_disturbed_samples_are_deleted_and_quiet_ones_stay(store):
    store.keep_session(Session("busy", "h1", "here", "0.1.0", OLD, load=0.6))
    kept = Observation("old", 1, (1.0,), load=0.05)
    for each in (
        Observation("old", 2, (5.0, 6.0), flags=("others-used-cpus",), load=0.4),
        Observation("busy", 0, (7.0,)),  # an earlier version kept the load of its session alone
        replace(kept, session="busy", round=1),
        kept,
    ):
        store.add_samples(KEY, each)
    before = left(store)
    pruned = prune(store, Selection(disturbed=True))
    assert (pruned.observations, pruned.measurements, pruned.calibrations) == (2, 0, 0)
    assert len(store.get([KEY])[KEY].values) == 4
    assert len(left(store) & before) == len(before) - 1
    assert prune(store, Selection(disturbed=True)).nothing


def test_one_of_two_equal_machines_is_deleted_alone(store):
    first = Machine("here", "", frozenset({"h1"}), alone=False)
    pruned = prune(store, Selection((first,)))
    assert (pruned.observations, pruned.sessions, pruned.systems) == (3, 1, 0)
    assert {each for row in store.sessions() for each in [row.host]} == {"h2", ""}
    assert list(store.systems()) == ["here", "there"]


PEAK, KEPT, LOADING = (
    Quantity(name, "MiB", Composition.PEAK, name) for name in ("peak", "kept", "loading")
)


@pytest.fixture
def observed(store):
    """The quantity of a metric, with a part, and another quantity that has the part's name."""
    observed = replace(SETUP, protocol="peak/1")
    for quantity, setup in (
        (PEAK, observed),
        (KEPT, observed),
        (KEPT, replace(SETUP, protocol="kept/2")),
    ):
        asked = replace(KEY, quantity=quantity, setup=setup)
        store.add_samples(asked, Observation("new", 0, (3.0,), taken_at=NEW))
    store.record_failure(replace(BAD, quantity=PEAK, setup=observed), "no memory")
    return store


def test_a_quantity_is_deleted_with_its_parts_and_no_other_one(observed):
    before = left(observed)
    assert observed.quantities() == ["kept", "latency", "peak"]
    selection = Selection(quantities=("peak",))
    expected = Pruned(measurements=3, observations=2, failures=1)
    assert prune(observed, selection, rehearse=True) == expected
    assert observed.quantities() == ["kept", "latency", "peak"]
    assert prune(observed, selection) == expected
    assert observed.quantities() == ["kept", "latency"]
    assert prune(observed, selection) == Pruned()
    assert prune(observed, Selection(quantities=("kept",))).observations == 1
    assert left(observed) == {row for row in before if row[5] != "no memory" and row[4] != 1}


def test_what_was_fitted_to_a_quantity_goes_with_the_last_of_it(observed):
    pruned = prune(observed, Selection(quantities=("latency",), outdated=True))
    assert (pruned.calibrations, pruned.rewrites) == (1, 0)  # one version is left of its setup
    pruned = prune(observed, Selection(quantities=("latency",)))
    # On the other systems nothing else was measured.
    assert (pruned.calibrations, pruned.rewrites) == (2, 2)
    assert observed.quantities() == ["kept", "peak"]
    assert prune(observed, Selection(quantities=("latency",))) == Pruned()


def test_failures_of_a_quantity_are_forgotten_alone(observed):
    pruned = prune(observed, Selection(quantities=("peak",), failures=True))
    assert pruned == Pruned(measurements=1, failures=1)
    assert {row[5] for row in left(observed)} == {None, "ill", "too slow"}


def test_deleting_gives_space_back(place):
    with ResultStore.open(place) as store:
        many = Observation("s", 0, tuple(1 / number for number in range(1, 20_000)))
        store.add_samples(KEY, many)
        full = info(store).size
        prune(store, Selection(backends=("mxnet",)))
        freed = store.compact()
        assert freed > 50_000
        assert info(store).size == full - freed
        store.add_samples(KEY, many)
    with ResultStore.open(place) as store:
        assert info(store).observations == 1
