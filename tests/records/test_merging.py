"""Stores that travel and are merged hold what all of them held, in whichever order."""

import json
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dlbricks_records.contents import (
    KnownSystem,
    export_measurements,
    import_measurements,
    inventory,
    merge,
    records,
)
from dlbricks_records.contents.records import plain
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    Composition,
    MachineName,
    Measurement,
    NetworkFeatures,
    Observation,
    Quantity,
    Question,
    Rewrite,
    Session,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
LOADING = Quantity("load-time", "s", Composition.SUM, "time to load a network")


def at(minute):
    return datetime(2026, 1, 1, 0, minute, tzinfo=UTC)


few = st.integers(0, 2)
names = few.map("n{}".format)
machines = few.map("m{}".format)
questions = st.builds(
    lambda signature, quantity, backend, system: Question(
        Subject(signature, "brick"), quantity, replace(SETUP, backend=backend), system
    ),
    names, st.sampled_from([LATENCY, LOADING]), names, machines,
)  # fmt: skip


@st.composite
def measurements(draw):
    """A measurement. Session and round tell an observation, so that two of the same are equal."""
    rounds = draw(st.sets(st.tuples(few, few), max_size=4))
    taken = tuple(
        Observation(f"s{s}", r, (1.0 + s, 0.1 + r), taken_at=at(10 * s + r)) for s, r in rounds
    )
    failure = draw(st.sampled_from([None, "ill", "too slow"])) if taken else "timeout"
    unsupported = failure is not None and draw(st.booleans())
    return Measurement(draw(questions), ("Conv",), taken, failure, unsupported)


any_record = st.one_of(
    machines.map(lambda name: KnownSystem(name, {"cpu": name})),
    st.builds(MachineName, machines, names, names, few.map(at)),
    st.builds(
        lambda number, load: Session(f"s{number}", "h", "m0", "0.1.0", at(number), load, load),
        few, st.sampled_from([None, 0.25]),
    ),
    measurements(),
    st.builds(
        lambda name, version, own: NetworkFeatures(name, version, (), 4 * version.encode(), own),
        names, st.sampled_from("12"), st.frozensets(names, max_size=2),
    ),
    st.builds(
        lambda system, minute: Calibration(
            CalibrationKey("similar", "chain", 1, LATENCY, SETUP, system),
            {"error": minute / 8}, (), 3, "0.1.0", at(minute),
        ),
        machines, few,
    ),
    st.builds(
        lambda name, system: Rewrite(name, "mxnet", "1", "{}", "0.1.0", system, 1, name.encode()),
        names, machines,
    ),
)  # fmt: skip
contents = st.lists(any_record, max_size=12)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Bytes of a store that holds nothing."""
    path = tmp_path_factory.mktemp("empty") / "empty.db"
    ResultStore.open(path).close()
    return path.read_bytes()


@pytest.fixture
def stores(empty):
    """Makes stores that hold what they are given, one list of records after the other."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))

        def make(*parts):
            path = folder / f"{len(list(folder.iterdir()))}.db"
            path.write_bytes(empty)
            store = opened.enter_context(ResultStore.open(path))
            for part in parts:
                merge(store, part)
            return store

        yield make


def held(store):
    """All that a store holds, apart from the order in which it came."""
    found = []
    for kind, data in map(plain, records(store)):
        if kind == "measurement":
            data["observations"].sort(key=lambda each: (each["session"], each["round"]))
        if kind != "quantity":
            found.append(json.dumps([kind, data], sort_keys=True))
    return sorted(found)


fast = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.long
@fast
@given(first=contents, second=contents, third=contents)
def test_merging_is_commutative_associative_and_idempotent(stores, first, second, third):
    one, other = stores(first), stores(second, third)
    both = held(stores(records(one), records(other)))
    assert held(stores(records(other), records(one))) == both
    assert held(stores(third, second, first)) == both
    assert held(stores(first, first, second, third, second, first)) == both
    assert not any(vars(merge(stores(first, second), [*second, *first])).values())


@fast
@given(first=contents, second=contents)
def test_a_merged_store_holds_every_observation_of_both(stores, first, second):
    merged = stores(first, second)
    taken = {
        (found.question, each.session, each.round): each
        for found in merged.measurements()
        for each in found.observations
    }
    for record in (*first, *second):
        if isinstance(record, Measurement):
            for each in record.observations:
                assert taken[record.question, each.session, each.round] == each


@settings(fast, max_examples=4)
@given(first=contents, second=contents)
def test_a_store_on_a_server_holds_what_a_file_would(stores, emptied, first, second):
    file = stores(first, second)
    with ResultStore.open(emptied()) as server:
        merge(server, iter(first))
        merge(server, iter(second))
        assert list(records(server)) == list(records(file))
        assert not any(vars(merge(server, records(file))).values())
        assert inventory(server) == inventory(file)
        assert held(stores(records(server))) == held(file)


@pytest.mark.long
@fast
@given(content=contents)
def test_what_travels_arrives_as_it_was_and_leaves_as_the_same_bytes(stores, content):
    here, there = stores(content), stores()
    path, again = here.place.path.with_suffix(".zst"), there.place.path.with_suffix(".zst")
    export_measurements(here, path)
    import_measurements(there, path)
    assert list(records(there)) == list(records(here))
    assert import_measurements(there, path) == 0
    export_measurements(there, again)
    assert again.read_bytes() == path.read_bytes()


def test_a_measurement_wins_over_a_failure(stores):
    question = Question(Subject("abc", "brick"), LATENCY, SETUP, "m")
    failed = Measurement(question, failure="too slow")
    good = Measurement(question, observations=(Observation("s", 0, (1.5,)),))
    for parts in ([failed], [good]), ([good], [failed]), ([failed, good],), ([good, failed],):
        found = stores(*parts).get([question])[question]
        assert (found.failure, found.values) == (None, (1.5,))


def test_of_two_failures_one_is_told_whatever_the_order(stores):
    question = Question(Subject("abc", "brick"), LATENCY, SETUP, "m")
    one, other = ([Measurement(question, failure=text)] for text in ("ill", "too slow"))
    for parts in (one, other), (other, one), ([*one, *other],), ([*other, *one],):
        assert stores(*parts).get([question])[question].failure == "ill"


def test_a_quantity_in_another_unit_changes_nothing(stores):
    store = stores([Measurement(Question(Subject("a", "brick"), LOADING, SETUP, "m"), (), (), "f")])
    before = held(store)
    milli = Quantity("load-time", "ms", Composition.SUM, "time to load a network")
    wrong = Measurement(Question(Subject("b", "brick"), milli, SETUP, "m"), (), (), "f")
    with pytest.raises(StoreError, match="load-time in s"):
        merge(store, [KnownSystem("new", {}), wrong])
    assert held(store) == before


def test_records_of_as_many_systems_take_a_few_statements(tmp_path):
    """A statement takes as long as a hundred rows."""
    many = [f"m{number}" for number in range(90)]
    added = [
        *(KnownSystem(name, {"cpu": name}) for name in many),
        *(MachineName(name, f"h-{name}", "lab", at(1)) for name in many),
        *(
            Measurement(
                Question(Subject(f"n-{name}", "brick"), LATENCY, SETUP, name),
                ("Conv",),
                (Observation("s0", 0, (1.0,), taken_at=at(1)),),
            )
            for name in many
        ),
        *(
            Calibration(CalibrationKey("c", "s", 8, LATENCY, SETUP, name), {"x": 0.1}, (), 1, "0")
            for name in many
        ),
    ]
    statements = []
    with ResultStore.open(tmp_path / "s.db") as store:
        event.listen(
            store._engine, "before_cursor_execute", lambda *given: statements.append(given[2])
        )
        for _ in range(2):
            merge(store, added)
        assert len(statements) < 90
        assert len(list(store.measurements())) == 90
        assert len([each for each in store.machines() if each.name]) == 90


def test_the_later_of_two_names_and_calibrations_in_one_file_counts(tmp_path):
    key = CalibrationKey("c", "s", 8, LATENCY, SETUP, "m0")
    added = [
        KnownSystem("m0", {"cpu": "a"}),
        *(MachineName("m0", "h", name, at(minute)) for name, minute in (("b", 2), ("a", 1))),
        *(Calibration(key, {"x": x}, (), 1, "0", at(minute)) for x, minute in ((0.2, 2), (0.1, 1))),
    ]
    with ResultStore.open(tmp_path / "s.db") as store:
        for _ in range(2):
            merged = merge(store, added)
        assert (merged.machines, merged.calibrations) == (0, 0)
        assert {each.name for each in store.machines()} == {"", "b"}
        assert store.calibration(key).values == {"x": 0.2}
