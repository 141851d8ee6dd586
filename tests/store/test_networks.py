"""Features of networks in the store, and values of many questions at once."""

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from dlbricks_core.facts import (
    LATENCY,
    Composition,
    NetworkFeatures,
    Observation,
    Quantity,
    Question,
    Session,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.store.questions import BATCH

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "interleaved/8", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")
NUMBERS = np.arange(4, dtype="<f4").tobytes()
NETWORK = NetworkFeatures("abc", "1", ("relu", "conv"), NUMBERS, frozenset({"resnet"}))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def test_features_come_back_as_they_were(store):
    store.keep_networks([NETWORK])
    assert store.networks("1") == {"abc": NETWORK}
    assert store.networks("1", ["abc", "other"]) == {"abc": NETWORK}
    assert store.networks("1", ["other"]) == store.networks("2") == {}


def test_features_of_another_version_replace_them_and_groups_add_up(store):
    store.keep_networks([NETWORK])
    newer = replace(NETWORK, version="2", kinds=("conv",), groups=frozenset({"vgg"}))
    store.keep_networks([newer])
    assert store.networks("1") == {}
    assert store.networks("2") == {"abc": replace(newer, groups=frozenset({"resnet", "vgg"}))}


def test_more_networks_than_a_statement_takes(store):
    many = [replace(NETWORK, signature=f"s{i}") for i in range(BATCH + 1)]
    store.keep_networks(many)
    assert len(store.networks("1")) == len(store.networks("1", [n.signature for n in many]))
    assert len(store.networks("1")) == BATCH + 1


def test_numbers_that_do_not_fit_the_kinds_are_refused():
    with pytest.raises(ValueError):
        replace(NETWORK, kinds=("relu",) * 3)


@pytest.mark.parametrize(
    ("column", "value"),
    [("kinds", "nonsense"), ("kinds", "[1]"), ("kinds", '["a", "b", "c"]'), ("numbers", b"x"),
     ("numbers", "text"), ("groups", "7"), ("kinds", "[" * 100_000)],
)  # fmt: skip
def test_a_damaged_row_is_named_and_left_out(path, column, value):
    with ResultStore.open(path) as store:
        store.keep_networks([NETWORK, replace(NETWORK, signature="good")])
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE networks SET {column} = ? WHERE signature = 'abc'", [value])
    with (
        ResultStore.open(path) as store,
        pytest.warns(UserWarning, match="row abc of networks"),
    ):
        assert set(store.networks("1")) == {"good"}


def test_values_of_many_questions_are_those_of_the_measurements(store):
    other = replace(KEY, subject=Subject("xyz", "model"))
    store.add_samples(KEY, Observation("s", 0, (1.5, 2.5), overhead=0.25, flags=("far",)))
    store.add_samples(KEY, Observation("t", 1, (1.75,)))
    store.add_samples(other, Observation("t", 0, (9.0,)))
    store.record_failure(replace(KEY, subject=Subject("bad", "brick")), "ill")
    first, second = store.sampled(LATENCY)
    measured = store.get([KEY])[KEY].observations
    assert first.question == KEY
    assert first.values == ((1.5, 2.5), (1.75,))
    assert first.overheads == (0.25, None)
    assert first.disturbed == (True, False)
    assert set(first.sessions) == {"s", "t"}
    assert first.begin == measured[0].taken_at.isoformat()
    assert first.end == measured[1].taken_at.isoformat()
    assert (second.question, second.values) == (other, ((9.0,),))


def test_samples_of_a_busy_session_are_disturbed_unless_they_have_a_load_of_their_own(store):
    store.keep_session(Session("busy", "h", "sys", "1", load=0.3))
    store.keep_session(Session("quiet", "h", "sys", "1", load=0.05))
    for number, taken in enumerate(
        [("busy", None, ()), ("busy", 0.02, ()), ("quiet", None, ()), ("quiet", 0.4, ("far",))]
    ):
        session, load, flags = taken
        store.add_samples(KEY, Observation(session, number, (1.0,), flags=flags, load=load))
    [found] = store.sampled(LATENCY)
    assert found.disturbed == (True, False, False, True)


def test_a_mark_is_on_all_observations_of_a_question_and_on_no_others(store):
    other = replace(KEY, subject=Subject("xyz", "brick"))
    for key in (KEY, other):
        store.add_samples(key, Observation("s", 0, (1.0,), flags=("far",), load=0.25))
        store.add_samples(key, Observation("s", 1, (2.0,)))
    for _ in range(2):
        store.mark([KEY], "widens-others")
    assert [each.flags for each in store.get([KEY])[KEY].observations] == [
        ("far", "widens-others"),
        ("widens-others",),
    ]
    assert store.get([other])[other].observations[1].flags == ()
    assert store.get([KEY])[KEY].observations[0].load == 0.25


def test_values_of_one_quantity_and_one_backend(store):
    memory = Quantity("peak-memory", "MB", Composition.PEAK, "memory")
    other = replace(KEY, setup=replace(SETUP, backend="pytorch"))
    for question in (KEY, other, replace(KEY, quantity=memory)):
        store.add_samples(question, Observation("s", 0, (1.0,)))
    assert [each.question for each in store.sampled(LATENCY, "pytorch")] == [other]
    assert [each.question for each in store.sampled(LATENCY)] == [KEY, other]


@pytest.mark.parametrize(
    ("column", "value"),
    [("values", "nonsense"), ("values", "[-1]"), ("values", "[1.5, NaN]"), ("values", "[0.0]"),
     ("values", '["1"]'), ("values", "[true]"), ("values", "[1e300]"), ("overhead", -1.0),
     ("overhead", "fast"), ("values", "1.5], [1.5"), ("flags", "busy"), ("taken_at", "yesterday"),
     ("values", b"\xff")],
)  # fmt: skip
def test_damaged_values_are_named_and_left_out(path, column, value):
    other = replace(KEY, subject=Subject("xyz", "model"))
    with ResultStore.open(path) as store:
        for question in (KEY, other):
            store.add_samples(question, Observation("s", 0, (1.5,)))
    with sqlite3.connect(path) as connection:
        connection.execute(f'UPDATE observations SET "{column}" = ? WHERE id = 1', [value])
    with (
        ResultStore.open(path) as store,
        pytest.warns(UserWarning, match="row 1 of observations"),
    ):
        assert [each.question for each in store.sampled(LATENCY)] == [other]
