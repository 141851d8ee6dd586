"""Reading a store without the right to write, and while others write."""

import hashlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.store import ResultStore

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")


@pytest.fixture
def path(tmp_path):
    location = tmp_path / "here" / "results.db"
    with ResultStore.open(location) as store:
        store.add_samples(KEY, Observation("s", 0, (1.5,)))
    return location


def samples(path):
    with ResultStore.open(path, writes=False) as store:
        return store.get([KEY])[KEY].values


def seen(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).digest() for p in folder.iterdir()}


def test_reading_leaves_no_files_behind(path):
    before = seen(path.parent)
    assert samples(path) == (1.5,)
    assert seen(path.parent) == before


def test_samples_that_another_process_has_just_written_are_seen(path):
    with ResultStore.open(path) as writer:
        writer.add_samples(KEY, Observation("s", 1, (2.5,)))
        assert samples(path) == (1.5, 2.5)
        writer.add_samples(KEY, Observation("s", 2, (3.5,)))
        assert samples(path) == (1.5, 2.5, 3.5)


def killed(path, folder, *logs):
    """The files of a writer that was killed, only these logs among them."""
    folder.mkdir()
    with ResultStore.open(path) as writer:
        writer.add_samples(KEY, Observation("s", 1, (2.5,)))
        for ending in ("", *logs):
            shutil.copy(f"{path}{ending}", folder)
    return folder / path.name


@pytest.mark.parametrize("logs", [("-wal", "-shm"), ("-wal",)])
def test_samples_that_a_killed_process_left_in_the_log_are_seen(path, tmp_path, logs):
    assert samples(killed(path, tmp_path / "left", *logs)) == (1.5, 2.5)


@pytest.fixture
def open_folder():
    """A folder that users without privileges may enter, which those of the tests are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.process
@pytest.mark.parametrize("logs", [("-wal", "-shm"), ("-wal",), ()])
def test_a_store_in_a_read_only_folder_can_be_read(path, open_folder, logs):
    left = killed(path, open_folder / "left", *logs)
    for each in left.parent.iterdir():
        each.chmod(0o444)
    left.parent.chmod(0o555)
    script = (
        "import os, sys; from dlbricks_core.store import ResultStore\n"
        "import dlbricks_core.store.database, sqlalchemy.dialects.sqlite\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "with ResultStore.open(sys.argv[1], writes=False) as store:\n"
        "    [found] = store.measurements()\n"
        "    print(*found.values)"
    )
    command = [sys.executable, "-c", script, left]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    left.parent.chmod(0o755)
    assert done.stdout == ("1.5 2.5\n" if logs else "1.5\n"), done.stderr


def test_an_older_store_is_upgraded_in_the_copy_alone(tmp_path, migrated):
    path = migrated(tmp_path / "old.db", "0001")
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO measurements VALUES (1, 'abc', 'brick', 'mxnet', '1.9.1', '{}',"
                       " 'sys', 2, 'paper:runs=100', '[]', NULL)")  # fmt: skip
    connection.execute("INSERT INTO sample_sets VALUES (1, 1, 's', 0, '[1.5]', NULL, '[]', "
                       "'2026-01-01T00:00:00+00:00')")  # fmt: skip
    connection.commit()
    connection.close()
    before = seen(tmp_path)
    assert samples(path) == (1.5,)
    assert seen(tmp_path) == before


def test_reading_creates_no_store(tmp_path):
    with ResultStore.open(tmp_path / "absent.db", writes=False) as store:
        assert store.get([KEY]) == {}
    with pytest.raises(StoreError, match=r"a\.db: there is no folder .*absent\n") as refused:
        ResultStore.open(tmp_path / "absent" / "a.db", writes=False)
    assert "make the folder" in refused.value.hint
    (tmp_path / "empty.db").touch()
    with ResultStore.open(tmp_path / "empty.db", writes=False) as store:
        assert list(store.measurements()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]
