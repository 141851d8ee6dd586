"""Jobs of a fleet are short processes: they spend little on starting and ending."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from dlbricks_fleet import extra, jobs
from dlbricks_fleet.job import LENGTH, PROGRAM
from dlbricks_fleet.plain import packed, unpacked
from dlbricks_fleet.records import Asked, Order

pytestmark = pytest.mark.process

AT_THE_END = """
import atexit, gc, sys
atexit.register(lambda: print(
    gc.isenabled(), gc.get_freeze_count() > 10_000, "scipy.linalg" in sys.modules))
"""


def test_a_job_collects_garbage_while_it_works_only_and_imports_no_linear_algebra(tmp_path):
    result = tmp_path / "result"
    order = Order("key", Asked("absent", {}), None, None, 60.0)
    with subprocess.Popen(
        [sys.executable, "-c", AT_THE_END + PROGRAM, str(tmp_path), str(result)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as job:  # fmt: skip
        content = packed(order.to_plain())
        job.stdin.write(LENGTH.pack(len(content)) + content)
        job.stdin.flush()  # its end would end the job
        assert job.stdout.read().split()[-3:] == [b"True", b"True", b"False"]
    assert unpacked(result.read_bytes())[0] == "refused"


ORDER = Order("key", Asked("a" * 24, {}), None, None, 60.0).to_plain()
FILES = {"name": "a" * 24, "files": {"manifest.json": b"{}"}, "known": b""}


@pytest.mark.parametrize(
    ("call", "given", "words"),
    [
        ("have-done", {}, "another structure"),
        ("have-done", {"order": {"key": "k"}, "what": "times"}, "another structure"),
        ("have-done", {"order": [1], "what": "times"}, "another structure"),
        ("have-done", {"order": {**ORDER, "asked": {"suite": 3, "options": {}}}, "what": "times"},
         "another structure"),
        ("have-done", {"order": {**ORDER, "asked": {"suite": "../x", "options": {}}},
                       "what": "times"}, "names no suite"),
        ("keep-suite", {**FILES, "name": "../x"}, "leads out"),
        ("keep-suite", {**FILES, "files": [1]}, "another structure"),
        ("keep-suite", {**FILES, "known": None}, "another structure"),
        ("keep-suite", {**FILES, "files": {1: b""}}, "another structure"),
        ("keep-suite", {**FILES, "files": {"a\0": b""}}, "cannot be stored"),
        ("keep-suite", {**FILES, "files": {"a": b"", "a/b": b""}}, "cannot be stored"),
        ("keep-suite", {**FILES, "files": {"n" * 300: b""}}, "cannot be stored"),
        ("keep-suite", {**FILES, "files": {"../a": b""}}, "leads out"),
        ("keep-suite", FILES, "what the fleet knows"),
        ("strange", {}, "does not do that"),
    ],
)  # fmt: skip
def test_an_order_of_another_structure_is_refused_and_is_no_defect(tmp_path, call, given, words):
    worker = extra.load("worker")
    host = SimpleNamespace(spool=tmp_path, does=lambda what: None, is_wanted=lambda key: True)
    answer = worker._answer(worker._CALLS.get(call, worker._unknown), host, given)
    assert words in answer["error"]["message"]
    assert not list(tmp_path.glob("suites/new-*"))


@pytest.mark.parametrize("answer", [b"", b"\xc1", packed(1), packed(["done", {}])])
def test_a_job_that_leaves_something_else_than_its_result_has_crashed(
    tmp_path, monkeypatch, answer
):
    """The framework of a job runs networks of others, which may have written anything."""
    program = f"import sys; open(sys.argv[2], 'wb').write({answer!r})"
    monkeypatch.setattr(jobs, "PROGRAM", program)
    with pytest.raises(jobs.CrashedError, match="left something else"):
        jobs.run_job(Order("key", Asked("absent", {}), None, None, 60.0), tmp_path)
