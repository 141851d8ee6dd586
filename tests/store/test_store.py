import dataclasses
from datetime import UTC, datetime

import pytest
from dlbricks_records.contents import info, merge

from dlbricks_core.commands.options.spelling import option_of
from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    LATENCY,
    Composition,
    Measurement,
    Observation,
    Quantity,
    Question,
    Session,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.store.opened import locate
from dlbricks_core.wording import arguments_spelled

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")

LOAD_TIME = Quantity("load-time", "s", Composition.SUM, "time to load a network")


def numbered(number):
    return dataclasses.replace(KEY, subject=Subject(f"brick{number}", "brick"))


def test_samples_come_back_exactly_and_in_order(store):
    taken = [Observation("s", i, (0.1 + i, 1 / 3), 0.002, ("busy",)) for i in range(3)]
    for samples in taken:
        store.add_samples(KEY, samples, layers=["Conv", "Relu"])
    found = store.get([KEY])[KEY]
    assert found.observations == tuple(taken)
    assert found.layers == ("Conv", "Relu")
    assert found.failure is None


def test_reopening_a_store_finds_what_was_written(place):
    with ResultStore.open(place) as first, ResultStore.open(place) as other:
        first.add_samples(KEY, Observation("s", 0, (1.0,)))
        assert other.get([KEY])[KEY].values == (1.0,)


OTHERS = {
    "subject.signature": dataclasses.replace(KEY, subject=Subject("abd", "brick")),
    "subject.kind": dataclasses.replace(KEY, subject=Subject("abc", "model")),
    "quantity": dataclasses.replace(KEY, quantity=LOAD_TIME),
    "system": dataclasses.replace(KEY, system="other"),
    **{
        f"setup.{name}": dataclasses.replace(
            KEY, setup=dataclasses.replace(KEY.setup, **{name: value})
        )
        for name, value in {
            "backend": "onnxruntime",
            "version": "1.9.2",
            "options": '{"fusion":"off"}',
            "threads": 1,
            "protocol": "paper:runs=10",
            "plugin": "0.1.0+3f9a12c4",
        }.items()
    },
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_nothing_measured_elsewhere_is_mixed_in(store, other):
    store.add_samples(KEY, Observation("s", 0, (1.0,)))
    assert store.get([other]) == {}
    store.add_samples(other, Observation("s", 0, (2.0,)))
    assert store.get([KEY])[KEY].values == (1.0,)
    assert store.get([other])[other].values == (2.0,)


def test_a_quantity_in_another_unit_is_refused(store):
    store.add_samples(KEY, Observation("s", 0, (1.0,)))
    seconds = dataclasses.replace(KEY, quantity=dataclasses.replace(LATENCY, unit="s"))
    for use in (
        lambda: store.add_samples(seconds, Observation("s", 1, (1.0,))),
        lambda: store.record_failure(seconds, "ill"),
        lambda: store.get([seconds]),
        lambda: merge(store, [Measurement(seconds, (), (Observation("s", 1, (1.0,)),))]),
    ):
        with pytest.raises(StoreError, match="latency in ms, and not in s"):
            use()
    assert store.get([KEY])[KEY].values == (1.0,)


def test_a_quantity_comes_back_with_all_its_properties(store):
    key = dataclasses.replace(KEY, quantity=LOAD_TIME)
    store.add_samples(key, Observation("s", 0, (1.0,)))
    [found] = store.measurements()
    assert found.question.quantity.to_dict() == LOAD_TIME.to_dict()


def test_the_newest_record_of_a_session_counts(store):
    first = Session("a", "host", "sys", "0.1.0", datetime(2026, 1, 2, tzinfo=UTC))
    earlier = Session("b", "", "sys", "0.1.0", datetime(2026, 1, 1, tzinfo=UTC), 0.5)
    for each in (first, earlier, dataclasses.replace(first, load=0.25)):
        store.keep_session(each)
    assert store.sessions() == [earlier, dataclasses.replace(first, load=0.25)]


def test_a_rewritten_graph_comes_back_and_takes_little_room(store):
    graph = b"Conv Relu " * 100_000
    store.keep_rewrite("net", KEY.setup, "sys", b"first answer")
    store.keep_rewrite("net", KEY.setup, "sys", graph)
    assert store.rewrite("net", KEY.setup, "sys") == graph
    assert info(store).size < len(graph)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_rewritten_graph_holds_for_its_setup_and_system(store, other):
    store.keep_rewrite("abc", KEY.setup, "sys", b"graph")
    found = store.rewrite(other.subject.signature, other.setup, other.system)
    any_will_do = ("subject.kind", "quantity", "setup.protocol")
    assert (found == b"graph") is (other in [OTHERS[name] for name in any_will_do])


def test_every_field_of_the_key_is_part_of_the_identity():
    fields = {
        f"{name}.{field.name}"
        for name in ("subject", "setup")
        for field in dataclasses.fields(getattr(KEY, name))
    }
    assert set(OTHERS) == fields | {"quantity", "system"}


@pytest.mark.long
def test_many_keys_are_found_in_few_queries(store):
    count = 1200
    merge(store, [])
    store.add_all(
        (numbered(number), Observation("s", 0, (number + 1.0,)), ())
        for number in range(0, count, 2)
    )
    statements = []
    from sqlalchemy import event

    event.listen(store._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    keys = [numbered(number) for number in range(count)]
    found = store.get(keys + keys)
    assert sorted(found) == sorted(keys[::2])
    assert all(found[numbered(n)].values == (n + 1.0,) for n in range(0, count, 2))
    assert len(statements) < 12


def test_no_keys_find_nothing(store):
    assert store.get([]) == {}


def test_the_same_round_of_a_session_cannot_be_added_twice(store):
    store.add_samples(KEY, Observation("s", 0, (1.0,)))
    with pytest.raises(StoreError):
        store.add_samples(KEY, Observation("s", 0, (2.0,)))
    assert store.get([KEY])[KEY].values == (1.0,)


def test_the_very_same_observation_counts_once(store):
    taken = Observation("s", 0, (1.0,))
    store.add_samples(KEY, taken)
    store.add_samples(KEY, taken)
    store.add_samples(numbered(1), taken)
    store.add_all([(KEY, taken, ())], instead_of=[KEY])
    assert store.get([KEY])[KEY].observations == (taken,)
    assert info(store).observations == 2


def test_a_failure_keeps_the_samples_before_it(store):
    store.add_samples(KEY, Observation("s", 0, (1.0,)))
    store.record_failure(KEY, "worker ended by signal 11")
    store.record_failure(numbered(1), "timeout after 5 s", layers=["Loop"])
    found = store.get([KEY, numbered(1)])
    assert found[KEY].failure == "worker ended by signal 11"
    assert found[KEY].values == (1.0,)
    assert found[numbered(1)].failure == "timeout after 5 s"
    assert found[numbered(1)].layers == ("Loop",)
    assert info(store).failures == 2


def test_what_a_backend_does_not_support_is_told_from_other_failures(store):
    store.record_failure(KEY, "no counterpart for Loop", unsupported=True)
    store.record_failure(numbered(1), "timeout after 5 s")
    store.record_failure(numbered(2), "no counterpart for Loop", unsupported=True)
    store.record_failure(numbered(2), "timeout after 5 s")
    found = store.get([KEY, numbered(1), numbered(2)])
    assert {key for key, each in found.items() if each.unsupported} == {KEY}


def test_what_is_not_supported_depends_on_neither_threads_nor_quantity(store):
    others = [
        dataclasses.replace(KEY, setup=dataclasses.replace(SETUP, threads=1)),
        dataclasses.replace(KEY, quantity=LOAD_TIME, subject=Subject("abc", "model")),
        dataclasses.replace(KEY, setup=dataclasses.replace(SETUP, options='{"a":1}')),
    ]
    store.record_failure(KEY, "no counterpart for Loop", unsupported=True)
    store.record_failure(numbered(1), "timeout after 5 s")
    for each in others:
        asked = store.refused(each.setup, each.system)
        same = each.setup.options == SETUP.options
        assert asked == ({"abc": "no counterpart for Loop"} if same else {})
    store.add_samples(others[0], Observation("s", 0, (1.0,)))
    assert store.refused(SETUP, "sys") == {}, "it was measured"


def test_what_is_supported_again_is_no_longer_refused(store):
    store.record_failure(KEY, "no counterpart for Loop", unsupported=True)
    store.record_failure(numbered(1), "no counterpart for Loop", unsupported=True)
    store.accept(SETUP, "sys", ["abc"])
    assert set(store.refused(SETUP, "sys")) == {"brick1"}


def test_new_samples_take_the_place_of_older_ones_at_once(store):
    for number in range(3):
        store.add_samples(numbered(number), Observation("s", 0, (1.0,)))
    store.record_failure(numbered(0), "NaN")
    replaced = [numbered(0), numbered(1), numbered(9)]
    again = [(numbered(0), Observation("s", 0, (3.0,)), ())]
    store.add_all(again, instead_of=replaced)
    found = store.get(map(numbered, range(3)))
    assert {key: each.values for key, each in found.items()} == {
        numbered(0): (3.0,), numbered(2): (1.0,)
    }  # fmt: skip
    assert found[numbered(0)].failure is None
    assert info(store).observations == 2


def test_samples_that_cannot_be_added_replace_nothing(store):
    store.add_samples(KEY, Observation("s", 0, (1.0,)))
    twice = [(numbered(1), Observation("s", 0, (2.0,)), ())] * 2
    with pytest.raises(StoreError):
        store.add_all(twice, instead_of=[KEY])
    assert store.get([KEY, numbered(1)])[KEY].values == (1.0,)


def test_listing_goes_through_all_measurements_oldest_first(store, monkeypatch):
    monkeypatch.setattr("dlbricks_core.store.measured.BATCH", 4)
    for number in range(10):
        store.add_samples(numbered(number), Observation("s", 0, (number + 1.0,)))
    store.add_all([(numbered(10), Observation("s", 0, (10.0,)), ())], instead_of=[numbered(5)])
    listed = list(store.measurements())
    assert [found.question for found in listed] == [numbered(n) for n in range(11) if n != 5]
    assert all(len(found.observations) == 1 for found in listed)


def test_the_newest_facts_about_a_system_count(store):
    store.remember_system("f1", {"cpu": "old"})
    store.remember_system("f2", {"cpu": "other"})
    store.remember_system("f1", {"cpu": "new", "cores": 2})
    assert store.systems() == {"f1": {"cpu": "new", "cores": 2}, "f2": {"cpu": "other"}}


def test_info_counts_measurements_observations_and_failures(store):
    store.add_samples(KEY, Observation("s", 0, (1.0,)))
    store.add_samples(KEY, Observation("s", 1, (1.0,)))
    found = info(store)
    assert (found.measurements, found.observations, found.failures, found.systems) == (1, 2, 0, 0)
    assert found.size > 0
    assert found.location == str(store.place)


def test_locations_are_paths_urls_or_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert locate(None).file == tmp_path / "data" / "dlbricks" / "results.db"
    assert locate("~/a.db").file == tmp_path / "home" / "a.db"
    assert locate("a.db").file == tmp_path / "a.db"
    assert locate("sqlite:///a.db").file == tmp_path / "a.db"
    assert locate(f"sqlite:///{tmp_path}/b.db").file == tmp_path / "b.db"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://u:secret@h/db"])
def test_urls_that_name_no_store_are_refused(url):
    with pytest.raises(StoreError) as caught:
        ResultStore.open(url)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_odd_file_names_work(tmp_path):
    path = tmp_path / "new folder" / "my results?#%41.db"
    with ResultStore.open(path) as store:
        store.add_samples(KEY, Observation("s", 0, (1.0,)))
    assert path.is_file()
    with ResultStore.open(str(path)) as store:
        assert KEY in store.get([KEY])


def test_hints_name_the_argument_as_the_user_writes_it(tmp_path):
    tmp_path.joinpath("notes.txt").write_text("no database, " * 500)
    with pytest.raises(StoreError) as caught:
        ResultStore.open(tmp_path / "notes.txt")
    assert caught.value.hint.endswith("or choose another file with store")
    with arguments_spelled(option_of), pytest.raises(StoreError) as caught:
        ResultStore.open(tmp_path)
    assert caught.value.hint.endswith(f"such as --store {tmp_path / 'results.db'}")


def test_zero_is_a_value_of_some_quantities_and_no_latency(store):
    kept = dataclasses.replace(
        KEY, quantity=Quantity("kept-memory", "MiB", Composition.SUM, "memory that is kept")
    )
    store.add_samples(kept, Observation("s", 0, (0.0, 1.5)))
    store.add_samples(KEY, Observation("s", 0, (0.0,)))
    with pytest.warns(UserWarning, match="a latency is 0"):
        found = store.get([kept, KEY])
    assert {key: each.values for key, each in found.items()} == {kept: (0.0, 1.5)}
