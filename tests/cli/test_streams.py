"""Standard streams that are closed, full, not read, or shared."""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from dlbricks_core.report.files import to_standard_output

pytestmark = pytest.mark.process

DLBRICKS = f"{sys.executable} -m dlbricks_core.cli"


@pytest.fixture(autouse=True)
def buffered(monkeypatch):
    """Lets output wait in a buffer, from which it goes when the interpreter ends."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, chain):
    """A folder with ``a.onnx``, which is imported once and comes from the cache from then on."""
    folder = tmp_path_factory.mktemp("streams")
    onnx.save(chain("Relu", name="a"), folder / "a.onnx")
    return folder


@pytest.fixture
def shell(folder):
    """Runs a line of the shell in that folder."""

    def run(line):
        command = ["bash", "-c", line.replace("dlbricks", DLBRICKS)]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        ("dlbricks --help >&-", 2, "standard output cannot be written: Bad file"),
        ("dlbricks show a.onnx > /dev/full", 2, "standard output cannot be written: No space"),
        ("dlbricks --help > /dev/full", 2, "standard output cannot be written: No space"),
        ("dlbricks show a.onnx -q >&-", 0, ""),
        ("dlbricks show a.onnx --json - >&-", 2, "not open for writing"),
        ("dlbricks show a.onnx -q --json - > /dev/full", 2, "No space"),
        ("dlbricks show a.onnx -q --json /dev/full", 2, "/dev/full cannot be written: No space"),
        ("dlbricks show a.onnx 2>&-", 0, ""),
        ("dlbricks show a.onnx <&- >&- 2>&-", 2, ""),
        ("dlbricks show b.onnx 2> /dev/full", 2, ""),
    ],
)
def test_unusable_streams_cause_at_most_one_line(shell, line, status, reason):
    done = shell(line)
    assert done.returncode == status
    assert reason in done.stderr
    lines = done.stderr.splitlines()
    assert [text.split(":")[0] for text in lines] == (["Error", "Hint"] if reason else [])


@pytest.mark.parametrize("arguments", ["show a.onnx -q --json -", "--help"])
def test_a_pipe_that_ends_early_is_silent(shell, arguments):
    done = shell(f"dlbricks {arguments} | true; echo ${{PIPESTATUS[0]}}")
    assert done.stdout == "141\n"
    assert done.stderr == ""


@pytest.mark.parametrize("form", ["csv", "markdown"])
@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("> /dev/full", 2, "standard output cannot be written: No space"),
        (">&-", 2, "standard output cannot be written: Bad file"),
        ("| true", 141, ""),
        (">&- 2>&-", 2, ""),
    ],
)
def test_tables_for_other_programs_that_cannot_be_written(shell, form, end, status, reason):
    line = f"dlbricks show a.onnx --format {form} {end}; echo status ${{PIPESTATUS[0]}}"
    done = shell(line)
    assert done.stdout == f"status {status}\n"
    assert reason in done.stderr
    assert ("Error: " in done.stderr) == bool(reason)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["link", "log"])
def test_json_is_appended_to_standard_output(shell, folder, name):
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to("/dev/stdout")
    (folder / "log").write_text("old\n")
    done = shell(f"(echo before; dlbricks show a.onnx -q --json {name}; echo after) >> log")
    assert (done.returncode, done.stderr) == (0, "")
    text = (folder / "log").read_text()
    assert text.startswith("old\nbefore\n{")
    assert text.endswith("}\nafter\n")
    assert json.loads(text.removeprefix("old\nbefore\n").removesuffix("after\n"))["models"]


@pytest.mark.parametrize(
    ("name", "known"),
    [("/dev/stdout", True), ("/dev/fd/1", True), ("/proc/self/fd/1", True), ("link", True),
     ("/dev/stderr", False), ("/dev/fd/2", False), ("file", False)],
)  # fmt: skip
def test_standard_output_is_known_by_all_its_names(tmp_path, name, known):
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "file").touch()
    assert to_standard_output(tmp_path / Path(name)) is known


def test_json_can_be_written_to_a_pipe_and_to_another_descriptor(shell):
    done = shell("dlbricks show a.onnx --json - | cat; dlbricks show a.onnx --json /dev/fd/3 "
                 "3>&1 >/dev/null")  # fmt: skip
    first, second = done.stdout.split("}\n{")
    assert json.loads(f"{first}}}") == json.loads(f"{{{second}")


def test_standard_output_may_be_a_socket_or_a_pipe_that_does_not_wait(tmp_path, save):
    many = [save(f"model{i}", *["Relu"] * 8) for i in range(15)]
    command = [*DLBRICKS.split(), "show", "-v", "--json", "/dev/stdout", *many]
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE)
    theirs.close()
    select.select([ours], [], [], 60)
    time.sleep(0.3)  # until it is full
    with ours.makefile() as reader:
        assert len(json.load(reader)["models"]) == 15
    assert process.communicate(timeout=60) == (None, b"Importing models\n")
    assert process.returncode == 0
    read, write = os.pipe()
    os.set_blocking(write, False)
    process = subprocess.Popen(["bash", "-c", f"{DLBRICKS} estimate --help; {DLBRICKS} --help"],
                               stdout=write, stderr=subprocess.PIPE)  # fmt: skip
    os.close(write)
    with os.fdopen(read) as reader:
        assert "Exit status" in reader.read()
    assert process.communicate(timeout=60) == (None, b"")
