import dataclasses
import json

import pytest

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    LATENCY,
    Composition,
    Observation,
    Quantity,
    Question,
    Session,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore, export_measurements, import_measurements

SETUP = Setup("mxnet", "1.9.1", '{"a":"b"}', 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "here")
FAILED = Question(
    Subject("def", "model"),
    LATENCY,
    Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0"),
    "here",
)

LOADING = dataclasses.replace(
    KEY, quantity=Quantity("load-time", "s", Composition.SUM, "time to load a network")
)
SESSION = Session("s", "host", "here", "0.1.0", load=0.125)


@pytest.fixture
def here(place):
    with ResultStore.open(place) as store:
        store.remember_system("here", {"cpu": "x"})
        store.add_samples(KEY, Observation("s", 0, (1 / 3, 2.0), 0.1, ("busy",)), ["Conv"])
        store.add_samples(LOADING, Observation("s", 0, (0.5,)), ["Conv"])
        store.record_failure(FAILED, "timeout")
        store.keep_session(SESSION)
        yield store


@pytest.fixture
def there(tmp_path):
    with ResultStore.open(tmp_path / "there.db") as store:
        yield store


def test_measurements_travel_unchanged(here, there, tmp_path):
    assert export_measurements(here, tmp_path / "a.json") == 3
    assert import_measurements(there, tmp_path / "a.json") == 2
    assert list(there.measurements()) == list(here.measurements())
    assert [each.question.quantity.to_dict() for each in there.measurements()] == [
        each.question.quantity.to_dict() for each in here.measurements()
    ]
    assert there.sessions() == here.sessions() == [SESSION]
    assert there.systems() == here.systems()


def test_importing_twice_doubles_nothing_and_keeps_what_was_there(here, there, tmp_path):
    there.add_samples(KEY, Observation("own", 0, (9.0,)), ["Conv"])
    there.remember_system("here", {"cpu": "known"})
    there.keep_session(known := dataclasses.replace(SESSION, load=0.25))
    export_measurements(here, tmp_path / "a.json")
    assert import_measurements(there, tmp_path / "a.json") == 2
    assert import_measurements(there, tmp_path / "a.json") == 0
    assert there.sessions() == [known]
    assert there.get([KEY])[KEY].values == (9.0, 1 / 3, 2.0)
    assert there.systems() == {"here": {"cpu": "known"}}


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"not json",
        lambda content: b"[]",
        lambda content: b'{"schema_version": 1}',
        lambda content: content.replace(b'"threads": 2', b'"thread": 2'),
        lambda content: content.replace(b'"measurements_version": 2', b'"measurements_version": 3'),
        lambda content: content.replace(b"2.0", b"-2.0"),
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b'"composition": "sum"', b'"composition": "mean"'),
        lambda content: content.replace(b'"quantity": "load-time"', b'"quantity": "unknown"'),
        lambda content: content.replace(b'"load": 0.125', b'"load": 12.5'),
    ],
)
def test_a_file_without_measurements_changes_nothing(here, there, tmp_path, damage):
    path = tmp_path / "a.json"
    export_measurements(here, path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StoreError) as caught:
        import_measurements(there, path)
    assert caught.value.hint
    assert there.info().measurements == there.info().systems == 0


def test_missing_and_unwritable_files_are_named(here, tmp_path):
    with pytest.raises(StoreError, match=r"nothing\.json"):
        import_measurements(here, tmp_path / "nothing.json")
    with pytest.raises(StoreError, match="nowhere"):
        export_measurements(here, tmp_path / "nowhere" / "a.json")


def test_an_exported_file_is_plain_json(here, tmp_path):
    export_measurements(here, tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["measurements"][0]["observations"][0]["values"] == [1 / 3, 2.0]
