"""Preferences: defaults of options from environment variables and from a file."""

import json

import pytest

from dlbricks_core.errors import DLBricksError
from dlbricks_core.measure.request import usual_threads
from dlbricks_core.preferences import NAMES, Preference, preferences, preferred, variable
from dlbricks_core.store.opened import locate

FILE = 'backend = "onnxruntime"\nstore = "lab.db"\nthreads = 3\nformat = "csv"\n'


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv("DLBRICKS_BUSY")


@pytest.fixture
def filed(tmp_path, monkeypatch):
    """Writes the file of preferences, and returns its path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "dlbricks" / "config.toml"
    path.parent.mkdir()

    def write(text):
        path.write_text(text)
        return path

    return write


def test_without_variables_and_file_there_are_no_preferences():
    assert preferences() == []
    assert {preferred(name) for name in NAMES} == {None}


def test_a_variable_goes_before_the_file(filed, monkeypatch):
    path = filed(FILE)
    monkeypatch.setenv("DLBRICKS_THREADS", "5")
    assert preferences() == [
        Preference("backend", "onnxruntime", str(path)),
        Preference("store", "lab.db", str(path)),
        Preference("threads", 5, "DLBRICKS_THREADS"),
        Preference("format", "csv", str(path)),
    ]


def test_the_library_uses_them_where_it_decides_a_default(filed, tmp_path, monkeypatch):
    filed(FILE)
    monkeypatch.chdir(tmp_path)
    assert usual_threads() == 3
    assert locate(None).file == tmp_path / "lab.db"
    assert locate("other.db").file == tmp_path / "other.db"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threads = 0", "threads is 0, not a whole number, 1 or more"),
        ("threads = true", "threads is True, not a whole number"),
        ("threads = 1.5", "threads is 1.5, not a whole number"),
        ("store = 3", "store is 3, not a text"),
        ('format = "xml"', "format is 'xml', not one of text, csv, markdown"),
        ("[backend]\nname = 1", "backend is {'name': 1}, not a text"),
        ("seed = 1", "'seed' has no default there"),
        ("backend = onnx", "is not TOML"),
        ("store = 0x" + "f" * 50_000, "it has an integer of 200,000 bits"),
        ("threads = [[0x" + "f" * 50_000 + "]]", "it has an integer of 200,000 bits"),
        ('threads = "' + "9" * 5000 + '"', ", not a whole number, 1 or more"),
        ("#" * 70_000, "it is too large: at most 64 KiB are read"),
    ],
)
def test_what_a_file_cannot_say_is_refused_with_its_path(filed, text, message):
    path = filed(text)
    with pytest.raises(DLBricksError) as error:
        preferences()
    assert error.value.message.startswith(str(path))
    assert message in error.value.message
    assert error.value.hint


def test_a_file_that_is_none_is_refused(filed, tmp_path):
    (tmp_path / "dlbricks" / "config.toml").mkdir()
    with pytest.raises(DLBricksError, match=r"config\.toml: "):
        preferences()


def test_a_variable_with_an_unusable_value_is_refused_by_its_name(monkeypatch):
    monkeypatch.setenv("DLBRICKS_THREADS", "two")
    with pytest.raises(DLBricksError, match="DLBRICKS_THREADS: threads is 'two'"):
        preferred("threads")


def test_a_command_takes_the_backend_that_the_user_prefers(dlbricks, filed):
    assert dlbricks("estimate", "m.onnx").err.endswith("Error: Missing option '--backend'.\n")
    filed('backend = "nowhere"')
    assert "unknown backend 'nowhere'" in dlbricks("estimate", "m.onnx").err
    assert "unknown backend 'typed'" in dlbricks("estimate", "m.onnx", "--backend", "typed").err


def test_a_preferred_store_is_not_overwritten(dlbricks, tmp_path, monkeypatch):
    monkeypatch.setenv("DLBRICKS_STORE", "lab.db")
    (tmp_path / "lab.db").write_bytes(b"")
    done = dlbricks("machine", "list", "--json", "lab.db")
    assert done.status == 2
    assert "--json names the same file as the store" in done.err


def test_the_check_of_a_machine_names_what_was_read(dlbricks, filed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert "No preferences: no file " in dlbricks("machine", "check").out
    path = filed("threads = 3")
    monkeypatch.setenv(variable("store"), "postgresql://me:secret@host/x")
    done = dlbricks("machine", "check", "--json", "o.json")
    stored = "store postgresql://me:***@host/x (DLBRICKS_STORE)"
    assert f"Preferences: {stored}, threads 3 ({path})" in done.out
    assert "--threads defaults to 3" in done.out
    found = json.loads((path.parents[1] / "o.json").read_text())
    assert found["threads"] == 3
    assert [each["value"] for each in found["preferences"]] == ["postgresql://me:***@host/x", "3"]
