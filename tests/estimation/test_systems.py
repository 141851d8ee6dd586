"""Systems by name, fingerprint and host."""

from dataclasses import replace

import pytest
from dlbricks_machine.names import name_machine
from dlbricks_prediction import shipped
from dlbricks_records.contents import exported, merge
from dlbricks_records.stores import records_of_files, records_of_stores, selected

from dlbricks_core.commands.options.systems import find_machine, find_system
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Observation, Question, Session, Setup, Subject
from dlbricks_core.store import ResultStore

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "interleaved/8", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "71bff16a9179441c")


def measured(path, host, value, session=None):
    """A store that a machine of the same fingerprint has measured into."""
    name = session or f"of {host}"
    with ResultStore.open(path) as store:
        store.remember_system(KEY.system, {"cpu": "fast"})
        store.keep_session(Session(name, host, KEY.system, "0.1.0"))
        store.add_samples(KEY, Observation(name, 0, (value,)))
    return path


@pytest.fixture
def stores(new_place):
    return measured(new_place(), "ha", 1.0), measured(new_place(), "hb", 2.0)


def merge_stores(store, locations):
    with records_of_stores(locations) as records:
        merge(store, records)


def named(path, text, name):
    with ResultStore.open(path) as store:
        return name_machine(store, text, name)


def test_equal_machines_are_told_apart_by_the_names_that_their_owners_gave(stores, new_place):
    for path, name in zip(stores, ("alice", "bob"), strict=True):
        named(path, "71bf", name)
    with ResultStore.open(new_place()) as both:
        merge_stores(both, stores)
        assert [each.name for each in both.machines()] == ["alice", "bob"]
        assert both.within(find_machine(both, "bob")).get([KEY])[KEY].values == (2.0,)
        assert both.within(find_machine(both, "71bf@ha")).get([KEY])[KEY].values == (1.0,)
        assert both.within(find_machine(both, "71bf")).get([KEY])[KEY].values == (1.0, 2.0)
        sampled = both.within(find_machine(both, "alice")).sampled(LATENCY)
        assert [each.values for each in sampled] == [((1.0,),)]


def test_a_named_machine_travels_alone(stores, new_place, tmp_path):
    with ResultStore.open(new_place()) as both:
        merge_stores(both, stores)
        name_machine(both, "71bf@hb", "bob")
        (tmp_path / "bob.zst").write_bytes(exported(both, selected(both, ["bob"])).content)
    with ResultStore.open(new_place()) as new:
        merge(new, records_of_files([tmp_path / "bob.zst"]))
        assert new.get([KEY])[KEY].values == (2.0,)
        assert [each.name for each in new.machines()] == ["bob"]
        assert [each.host for each in new.sessions()] == ["hb"]


def test_a_machine_that_was_restarted_gets_its_name_again(stores, tmp_path):
    first, _ = stores
    named(first, "71bf", "alice")
    measured(first, "restarted", 3.0)
    with ResultStore.open(first) as store:
        assert [each.reference for each in store.machines()] == ["71bff16a@restarte", "alice"]
        named(first, "71bf", "alice")
        (machine,) = store.machines()
        assert machine.hosts == {"ha", "restarted"}
        assert machine.reference == "alice"
        name_machine(store, "alice", "lab")
        assert [each.name for each in store.machines()] == ["lab"]


def test_samples_whose_session_nobody_recorded_have_a_machine_as_well(stores):
    first, _ = stores
    with ResultStore.open(first) as store:
        store.add_samples(KEY, Observation("of an older DLBricks", 0, (9.0,)))
        (machine,) = store.machines()
        assert machine.hosts == {"ha", ""}
        name_machine(store, "71bf@ha", "alice")
        assert store.within(find_machine(store, "alice")).get([KEY])[KEY].values == (1.0,)
        (other,) = (each for each in store.machines() if not each.name)
        assert store.within(other).get([KEY])[KEY].values == (9.0,)


@pytest.mark.parametrize("name", ["", "a b", "-x", "a" * 41, "tab\t", "71b", "a@b", "\udce9"])
def test_some_names_are_refused(stores, name):
    with pytest.raises(DLBricksError) as caught:
        named(stores[0], "71bf", name)
    assert caught.value.hint


def test_a_name_stands_for_one_system(stores):
    first, _ = stores
    other = replace(KEY, system="9000")
    with ResultStore.open(first) as store:
        store.add_samples(other, Observation("s", 0, (1.0,)))
        name_machine(store, "9000", "lab")
        with pytest.raises(DLBricksError, match="another system"):
            name_machine(store, "71bf", "lab")


@pytest.mark.parametrize("text", ["", "abc", "71bf@nobody", "71bff16a9179441c0"])
def test_a_machine_that_the_store_does_not_know_is_refused(stores, text):
    with ResultStore.open(stores[0]) as store, pytest.raises(DLBricksError, match="no system"):
        find_machine(store, text)


def test_a_name_that_two_merged_stores_gave_to_different_systems_is_ambiguous(stores):
    first, second = stores
    with ResultStore.open(second) as store:
        store.add_samples(replace(KEY, system="9000"), Observation("s", 0, (1.0,)))
    named(first, "71bf", "lab")
    named(second, "9000", "lab")
    with ResultStore.open(first) as store:
        merge_stores(store, [second])
        with pytest.raises(DLBricksError, match="more than one system 'lab'"):
            find_machine(store, "lab")


def test_a_microarchitecture_names_the_system_of_the_store_first_and_those_of_the_atlas(stores):
    first, _ = stores
    kinds = {each.system.microarchitecture: each.system.fingerprint for each in shipped()}
    assert len(kinds) > 1
    with ResultStore.open(first) as store:
        for kind, fingerprint in kinds.items():
            system, machine = find_system(store, kind.title())
            assert (system.fingerprint, machine) == (fingerprint, None)
        own = shipped()[0].system
        store.remember_system("9000", own.to_dict())
        store.add_samples(replace(KEY, system="9000"), Observation("s", 0, (1.0,)))
        system, machine = find_system(store, own.microarchitecture)
        assert (system.fingerprint, machine.system) == ("9000", "9000")
        with pytest.raises(DLBricksError, match="no system 'zen9'") as caught:
            find_system(store, "zen9")
        for kind, fingerprint in (*kinds.items(), (own.microarchitecture, "9000")):
            assert f"{fingerprint} ({kind})" in caught.value.hint
