"""Nothing outlives the run: real processes, real signals."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Thread

import psutil
import pytest

from dlbricks_core.worker import RemoteError, WorkerError, WorkerProcess

HEARING = """
import signal
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)  # the tests themselves may run under nohup
"""
PARENT = """
import sys, threading, time
from dlbricks_core.worker import WorkerProcess

workers = []

def start():
    for _ in range(2):
        worker = WorkerProcess({service!r})
        print(worker._guard.pid, worker.call("pid"), *worker.call("start_others"))
        worker.call("temporary")
        workers.append(worker)

# A thread that has ended when the signal comes, as those that ask for several models at once.
thread = threading.Thread(target=start)
thread.start()
thread.join()
print("ready", flush=True)
workers[0].call({method!r}, *{arguments!r})
"""


@pytest.fixture
def parent(service, tmp_path, monkeypatch):
    """Starts a process with two workers; gives it, and the processes that it brought along."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))

    def start(method, *arguments):
        code = HEARING + PARENT.format(service=service, method=method, arguments=arguments)
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        pids = []
        for line in process.stdout:
            if line == "ready\n":
                break
            pids += map(int, line.split())
        assert len(pids) == 8
        return process, pids, folder

    return start


@pytest.mark.parametrize(
    ("stop", "method"),
    [
        ("SIGKILL", "hold_the_lock"),
        ("SIGTERM", "sleep"),
        ("SIGHUP", "hold_the_lock"),
        ("SIGQUIT", "sleep"),
    ],
)
def test_a_killed_parent_leaves_no_processes(parent, all_gone, wait_until, tmp_path, stop, method):
    marker = tmp_path / "busy"
    argument = 300 if method == "sleep" else str(marker)
    process, pids, folder = parent(method, argument)
    assert any(folder.iterdir())
    if method == "hold_the_lock":
        assert wait_until(marker.exists)
    process.send_signal(signal.Signals[stop])
    process.wait(20)
    assert all_gone(pids)
    assert wait_until(lambda: not any(folder.iterdir()))


def _dies(worker):
    with pytest.raises(WorkerError):
        worker.call("hold_the_lock")


def test_a_worker_ends_with_its_guard(service, all_gone):
    with WorkerProcess(service) as worker:
        pid = worker.call("pid")
        thread = Thread(target=_dies, args=(worker,))
        thread.start()
        os.kill(worker._guard.pid, signal.SIGKILL)
        assert all_gone([pid])
        thread.join(20)
        assert not thread.is_alive()
    assert not worker.folder.exists()


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_worker_that_is_ended_takes_its_children_along(service, all_gone, end):
    worker = WorkerProcess(service)
    others = worker.call("start_others")
    assert worker.call("temporary").startswith(str(worker.folder))
    getattr(worker, end)()
    assert all_gone(others)
    assert not worker.folder.exists()
    worker.close()


def test_a_crashed_worker_leaves_no_processes(service, all_gone):
    worker = WorkerProcess(service)
    others = worker.call("start_others")
    worker.call("temporary")
    with pytest.raises(WorkerError, match="exit status 5"):
        worker.call("print_and_die", timeout=30)
    assert all_gone(others)
    assert not worker.folder.exists()
    worker.close()


#: A guard without ``prctl`` and ``/proc``, as outside of Linux, and a worker that leaves a process.
ELSEWHERE = """
import os, subprocess, sys
from pathlib import Path
from dlbricks_core.worker import guard

folder, log = Path(sys.argv[1]), os.open(os.devnull, os.O_RDWR)
guard._prctl, guard._orphans = (lambda *_: None), tuple
guard.stand_guard(os.dup(log), log, folder / "own", 0)
(folder / "left").write_text(str(subprocess.Popen(["sleep", "300"]).pid))
"""


def test_the_group_of_a_worker_ends_with_it_on_other_systems(processes, all_gone, tmp_path):
    command = [sys.executable, "-c", ELSEWHERE, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as guard:
        assert guard.wait(60) == 0
    left = int((tmp_path / "left").read_text())
    try:
        assert all_gone([left])
    finally:
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


def test_signals_to_all_are_left_to_the_parent(service):
    with WorkerProcess(service) as worker:
        assert worker.call("add", 1, 1) == 2
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            worker._guard.send_signal(number)
        assert worker.call("add", 1, 1) == 2


def test_the_worker_inherits_no_threads_or_descriptors(service):
    with WorkerProcess(service) as first, WorkerProcess(service) as second:
        for worker in (first, second):
            assert worker.call("threads") == 1
            # Standard ones, the connection, and that of the listing itself.
            assert len(worker.call("descriptors")) == 5


def test_the_guard_waits_without_computing(service):
    with WorkerProcess(service) as worker:
        worker.call("add", 1, 1)
        guard = psutil.Process(worker._guard.pid)
        before = guard.num_ctx_switches()
        worker.call("sleep", 0.3)
        assert guard.num_ctx_switches() == before


def test_endless_output_of_a_worker_is_shortened(service):
    with WorkerProcess(service) as worker:
        worker.call("print_on", 20, timeout=60)
        with pytest.raises(WorkerError) as caught:
            worker.call("print_and_die", timeout=60)
        assert caught.value.hint == "the end"
        assert os.fstat(worker._log.fileno()).st_size <= 65536
        assert len(worker.log()) == 65536


def test_a_worker_that_closes_its_connection_but_lives_on_is_ended(service, all_gone, monkeypatch):
    monkeypatch.setattr("dlbricks_core.worker.process._END_S", 0.2)
    with WorkerProcess(service) as worker:
        pid = worker.call("pid")
        with pytest.raises(WorkerError, match="closed its connection"):
            worker.call("close_and_live", timeout=30)
        assert all_gone([pid])


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 100, (20).to_bytes(8, "big") + b"x" * 20, (2).to_bytes(8, "big") + b"N."]
)
def test_garbage_from_a_worker_is_an_error(service, all_gone, garbage):
    with WorkerProcess(service) as worker:
        pid = worker.call("pid")
        with pytest.raises(WorkerError, match="invalid answer"):
            worker.call("say_garbage", garbage, timeout=30)
        assert all_gone([pid])


@pytest.mark.parametrize("size", [1, 10**7])
def test_a_worker_that_hangs_before_it_can_answer_is_ended(service, tmp_path, size):
    (tmp_path / "services" / "hangs.py").write_text("import time; time.sleep(300)")
    with (
        WorkerProcess("hangs:Service") as worker,
        pytest.raises(WorkerError, match=r"no answer within 0\.5 s"),
    ):
        worker.call("add", b"x" * size, timeout=0.5)


def test_an_incomplete_answer_is_an_error(service):
    half = (100).to_bytes(8, "big") + b"x"
    with WorkerProcess(service) as worker:
        worker.call("add", 1, 1)
        with pytest.raises(WorkerError, match=r"no answer within 0\.5 s"):
            worker.call("say_garbage", half, timeout=0.5)


def test_arguments_that_cannot_be_sent_are_an_error_of_the_call(service):
    with WorkerProcess(service) as worker:
        with pytest.raises(RemoteError, match="pickle"):
            worker.call("unpicklable", timeout=30)
        assert worker.call("add", 1, 1) == 2


def test_a_worker_runs_where_nothing_can_be_written(service, monkeypatch):
    def nowhere():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with WorkerProcess(service) as worker:
        assert worker.call("add", 1, 1) == 2


def test_a_process_that_cannot_be_started_is_an_error_for_users(service, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(WorkerError, match="cannot be started"):
        WorkerProcess(service)
