"""Files that users ask for: whole or not at all."""

import json
import os
import threading
from pathlib import Path

import pytest

from dlbricks_core.errors import DLBricksError
from dlbricks_core.report.files import check_folder, check_writable, write_json, write_text


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "o.json"
    write_json({"a": 1}, path)
    assert json.loads(path.read_text()) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    path.chmod(0o640)
    before = path.stat().st_ino
    write_text("new", path)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.stat().st_ino != before
    assert files(tmp_path) == ["o.json"]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "o.json"
    path.write_text("old")

    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(DLBricksError, match=r"o\.json cannot be written: No space"):
        write_text("new", path)
    assert path.read_text() == "old"
    assert files(tmp_path) == ["o.json"]


def test_symbolic_and_hard_links_stay_links(tmp_path):
    path, link, twin = (tmp_path / name for name in ("real", "link", "twin"))
    path.write_text("old")
    twin.hardlink_to(path)
    link.symlink_to("real")
    write_text("new", link)
    assert link.is_symlink()
    assert path.read_text() == twin.read_text() == "new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to("made")
    write_text("new", dangling)
    assert (tmp_path / "made").read_text() == "new"


def test_a_pipe_can_be_written_to(tmp_path):
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    check_writable(path)
    reader.start()
    write_text("text", path)
    reader.join(10)
    assert read == ["text"]
    assert files(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_an_open_descriptor_is_written_to_from_where_it_stands(tmp_path, name):
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("a") as file:
        file.write("own\n")
        file.flush()
        target = type(path)(name.format(file.fileno()))
        check_writable(target)
        write_text("text\n", target)
        file.write("after\n")
    assert path.read_text() == "before\nown\ntext\nafter\n"


def test_a_descriptor_that_is_not_open_for_writing_is_an_error(tmp_path):
    path = tmp_path / "in"
    path.touch()
    with path.open() as file, pytest.raises(DLBricksError, match="not open for writing"):
        check_writable(type(path)(f"/dev/fd/{file.fileno()}"))
    with pytest.raises(DLBricksError, match="Bad file descriptor"):
        check_writable(type(path)("/dev/fd/987"))


def test_text_that_is_not_unicode_is_written_as_escapes(tmp_path):
    write_text("caf\udce9", tmp_path / "o.html")
    assert (tmp_path / "o.html").read_bytes() == rb"caf\udce9"


def test_a_file_that_cannot_be_written_is_an_error_and_nothing_is_left(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    for name, reason in (
        ("folder", "it is a folder"),
        ("absent/o.json", "there is no folder"),
        ("file/o.json", "there is no folder"),
        ("x" * 300, "File name too long"),
    ):
        with pytest.raises(DLBricksError, match=reason):
            check_writable(tmp_path / name)
    for name in ("file", "new"):
        check_writable(tmp_path / name)
    assert files(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_need_not_be_there_but_must_be_possible(tmp_path):
    check_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "b", tmp_path / "file", tmp_path / ("x" * 300)):
        with pytest.raises(DLBricksError, match="cannot be written"):
            check_folder(place)
    assert files(tmp_path) == ["file"]


def test_on_a_full_disk_the_hint_is_to_free_some_space():
    with pytest.raises(DLBricksError, match="cannot be written: No space left") as raised:
        write_text("text", Path("/dev/full"))
    assert raised.value.hint == "Free some space, or name another one."
