import dataclasses
import json
from importlib import import_module

import pytest
import zstandard
from dlbricks_records.contents import (
    Selection,
    export_measurements,
    import_measurements,
    records,
)
from dlbricks_records.contents.records import plain

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    CalibrationModel,
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
from dlbricks_core.store.database import ServerLostError

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
SESSION = Session("s", "host", "here", "0.1.0", load=0.125, pulse_ms=0.05, pulse_spread=0.25)


FITTED = Calibration(
    CalibrationKey("similar", "chain", 1, LATENCY, SETUP, "here"),
    {"composing_error": 0.04},
    (CalibrationModel("net", "net.onnx", "abc", -0.02, 0.01),),
    7,
    "0.1",
)


def canonical(store):
    """All that a store holds, whatever the order in which it came."""
    return sorted(str(sorted_(plain(each))) for each in records(store))


def sorted_(record):
    kind, data = record
    if kind == "measurement":
        taken = sorted(data["observations"], key=lambda each: (each["session"], each["round"]))
        data = {**data, "observations": taken}
    return kind, data


@pytest.fixture
def here(place):
    with ResultStore.open(place) as store:
        store.remember_system("here", {"cpu": "x"})
        store.add_samples(KEY, Observation("s", 0, (1 / 3, 2.0), 0.1, ("busy",)), ["Conv"])
        store.add_samples(LOADING, Observation("s", 0, (0.5,)), ["Conv"])
        store.record_failure(FAILED, "timeout")
        store.keep_session(SESSION)
        store.keep_networks([NetworkFeatures("abc", "1", ("conv",), bytes(4), frozenset({"vgg"}))])
        store.keep_calibration(FITTED)
        store.keep_rewrite("abc", SETUP, "here", b"graph")
        store.name_machine(Machine("here", "", frozenset({"host"})), "lab")
        yield store


@pytest.fixture
def there(processes, kind, tmp_path, request):
    """A store of the other kind."""
    elsewhere = request.getfixturevalue("emptied")() if kind == "sqlite" else tmp_path / "there.db"
    with ResultStore.open(elsewhere) as store:
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
    assert list(records(there)) == list(records(here))
    export_measurements(there, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_one_of_two_equal_machines_takes_along_what_backends_make_of_models(here, there, tmp_path):
    here.add_samples(KEY, Observation("t", 0, (5.0,)), ["Conv"])
    here.keep_session(Session("t", "other", "here", "0.1.0"))
    (machine,) = [each for each in here.machines() if each.name == "lab"]
    assert not machine.alone
    export_measurements(here, tmp_path / "lab.zst", Selection((machine,)))
    import_measurements(there, tmp_path / "lab.zst")
    assert [each.host for each in there.sessions()] == ["host"]
    assert there.rewrite("abc", SETUP, "here") == b"graph"


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


def altered(name, value):
    """Function that changes a field wherever a line of an exported file has it."""

    def change(part):
        if isinstance(part, list):
            return [change(each) for each in part]
        if not isinstance(part, dict):
            return part
        return {key: value if key == name else change(each) for key, each in part.items()}

    return change


@pytest.mark.parametrize(
    "damage",
    [
        altered("threads", "2"),
        altered("threads", 10**30),
        altered("threads", -1),
        altered("options", "{{{"),
        altered("options", "[]"),
        altered("round", 10**30),
        altered("values", [-2.0]),
        altered("values", [0.0]),
        altered("composition", "mean"),
        altered("quantity", "unknown"),
        altered("load", 12.5),
        altered("session", "\udce9"),
        altered("signature", "\0"),
        altered("numbers", "no base64"),
        altered("numbers", "AAAA"),
        altered("graph", 3),
        altered("named_at", "today"),
        altered("facts", []),
        altered("key", "{}"),
        altered("end", 3),
        lambda lines: lines[:-1],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines, lines[3]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [*lines[:2], {"unknown": {}}, *lines[2:]],
        lambda lines: lines[1:],
        lambda lines: [],
        lambda lines: [[], *lines],
        lambda lines: [{**lines[0], "dlbricks_measurements": "3"}, *lines[1:]],
    ],
)
def test_a_file_with_damaged_records_changes_nothing(
    here, there, tmp_path, damage, lines_of, write_lines
):
    path = tmp_path / "a.jsonl.zst"
    export_measurements(here, path)
    lines = lines_of(path)
    wrong = damage(lines)
    assert wrong != lines
    write_lines(path, wrong)
    refused(there, path)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda lines: lines[:-1], "the file is cut off"),
        (altered("threads", -1), "record 6 is damaged"),
        (altered("round", 10**30), "record 6 is damaged"),
    ],
)
def test_damage_to_an_exported_file_is_told_as_such(
    here, there, tmp_path, lines_of, write_lines, damage, told
):
    path = tmp_path / "a.jsonl.zst"
    export_measurements(here, path)
    write_lines(path, damage(lines_of(path)))
    assert refused(there, path).endswith(told)


def test_a_store_in_the_place_of_an_exported_file_is_told_with_both_ways_out(there, tmp_path):
    ResultStore.open(tmp_path / "store.sqlite").close()
    with pytest.raises(StoreError) as caught:
        import_measurements(there, tmp_path / "store.sqlite")
    assert caught.value.hint == "merge it into a store, or name it with store"


def refused(store, path):
    with pytest.raises(StoreError) as caught:
        import_measurements(store, path)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    assert list(records(store)) == [LATENCY]  # which every store knows
    return str(caught.value)


def test_a_file_of_a_newer_version_is_refused_as_such(here, there, tmp_path, lines_of, write_lines):
    path = tmp_path / "a.jsonl.zst"
    export_measurements(here, path)
    first, *lines = lines_of(path)
    write_lines(path, [{**first, "dlbricks_measurements": 4}, *lines])
    assert "version 4" in refused(there, path)
    path.write_text('{"measurements_version": 4}')
    assert "version 4" in refused(there, path)


def mean_the_same(changed, whole):
    """Whether nothing but a bit was changed that fills up the compressed content."""
    contents = zstandard.ZstdDecompressor().decompressobj
    try:
        return contents().decompress(changed) == contents().decompress(whole)
    except zstandard.ZstdError:
        return False


def test_a_file_that_is_cut_off_or_changed_anywhere_changes_nothing(here, there, tmp_path):
    path = tmp_path / "a.jsonl.zst"
    export_measurements(here, path)
    whole = path.read_bytes()
    for size in (*range(0, len(whole), 41), *range(len(whole) - 8, len(whole))):
        path.write_bytes(whole[:size])
        refused(there, path)
    for at in range(4, len(whole), 31):
        changed = whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :]
        path.write_bytes(changed)
        if not mean_the_same(changed, whole):
            refused(there, path)
    for more in (b"x", whole, b"{}"):
        path.write_bytes(whole + more)
        refused(there, path)
    path.write_bytes(whole)
    assert import_measurements(there, path) == 2


@pytest.mark.parametrize(
    "content", [b"", b"not json", b"[]", b'{"schema_version": 1}', b"[" * 9999]
)
def test_a_file_of_something_else_changes_nothing(there, tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    refused(there, tmp_path / "a.json")


def test_missing_and_unwritable_files_are_named(here, tmp_path):
    with pytest.raises(StoreError, match=r"nothing\.json"):
        import_measurements(here, tmp_path / "nothing.json")
    with pytest.raises(StoreError, match="nowhere"):
        export_measurements(here, tmp_path / "nowhere" / "a.json")


def test_an_exported_file_is_lines_of_json(here, tmp_path, lines_of):
    export_measurements(here, tmp_path / "a.jsonl.zst")
    first, *records, last = lines_of(tmp_path / "a.jsonl.zst")
    assert first["dlbricks_measurements"] == 3
    assert last == {"end": len(records)}
    assert [kind for each in records for kind in each] == [
        "system", "machine", "session", "quantity", "quantity",
        "measurement", "measurement", "measurement", "network", "calibration", "rewrite",
    ]  # fmt: skip
    assert records[5]["measurement"]["observations"][0]["values"] == [1 / 3, 2.0]


def test_a_file_of_version_2_is_read(here, there, tmp_path):
    key = {**dataclasses.asdict(SETUP), "signature": "abc", "kind": "brick", "quantity": "latency",
           "system": "here"}  # fmt: skip
    content = {
        "measurements_version": 2,
        "systems": {"here": {"cpu": "x"}},
        "quantities": [LATENCY.to_dict()],
        "sessions": [SESSION.to_dict()],
        "measurements": [
            {"key": key, "layers": ["Conv"], "failure": None,
             "observations": [Observation("s", 0, (1.5,)).to_dict()]}
        ],
    }  # fmt: skip
    (tmp_path / "2.json").write_text(json.dumps(content))
    assert import_measurements(there, tmp_path / "2.json") == 1
    assert there.sessions() == [SESSION]
    assert there.systems() == here.systems()
    assert there.get([KEY])[KEY].values == (1.5,)


def test_only_what_belongs_to_a_backend_is_exported(here, there, tmp_path):
    other = dataclasses.replace(KEY, setup=dataclasses.replace(SETUP, backend="torch"))
    other = dataclasses.replace(other, system="elsewhere")
    here.add_samples(other, Observation("t", 0, (3.0,)))
    here.keep_session(Session("t", "host", "elsewhere", "0.1.0"))
    here.remember_system("elsewhere", {})
    export_measurements(here, tmp_path / "a.jsonl.zst", Selection(backends=("torch",)))
    import_measurements(there, tmp_path / "a.jsonl.zst")
    assert [each.question for each in there.measurements()] == [other]
    assert [each.id for each in there.sessions()] == ["t"]
    assert list(there.systems()) == ["elsewhere"]
    assert there.rewrite("abc", SETUP, "here") is None
    assert there.calibration(FITTED.key) is None
    export_measurements(here, tmp_path / "b.jsonl.zst", Selection(backends=("mxnet",)))
    import_measurements(there, tmp_path / "b.jsonl.zst")
    assert canonical(there) == canonical(here)


def test_systems_come_in_the_same_order_from_a_file_and_a_server(here, there):
    names = ["B", "a-b", "aa", "Ä", "é", "z"]
    for store in (here, there):
        for name in reversed(names):
            store.remember_system(name, {})
    assert [each for each in here.systems() if each != "here"] == sorted(names)
    assert list(there.systems()) == sorted(names)


def test_a_store_is_read_again_where_its_server_was_lost(here, monkeypatch):
    module = import_module("dlbricks_records.contents.exported")  # a function has its name, too
    read, lost = module._exported, []

    def lose_once(*arguments):
        if not lost:
            lost.append(True)
            raise ServerLostError("the server is gone")
        return read(*arguments)

    expected = module.exported(here).content
    monkeypatch.setattr(module, "_exported", lose_once)
    with pytest.warns(UserWarning, match="the server was lost"):
        assert module.exported(here).content == expected
