"""Limits on a command's own memory and time, until it measures."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from dlbricks_core.limits import OWN_MEMORY, OWN_TIME
from dlbricks_core.worker import WorkerProcess, memory_to_use, release
from dlbricks_core.worker.memory import limited, ulimits

pytestmark = pytest.mark.process

COMMAND = """
import importlib
room = importlib.import_module("dlbricks_core.cli.main")

def work(context):
    {work}

room.cli.invoke = work
room.main(["list"])
"""


def ended(work, limit, number):
    """The error and the hint of a command that does some work under a limit."""
    line = [sys.executable, "-c", COMMAND.format(work=work)]
    environment = {**os.environ, limit.variable: str(number)}
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert hint == f"Hint: {limit.hint}"
    return error


def test_a_command_that_expands_ends_at_its_memory():
    error = ended("bytearray(2**30)", OWN_MEMORY, 300)
    assert error == "Error: this process ran out of memory"


def test_a_command_that_never_ends_stops_at_its_time():
    work = "\n    ".join(
        ["while True:", "    try:", "        sum(range(1000))", "    except Exception: pass"]
    )
    error = ended(work, OWN_TIME, 1)
    assert error == "Error: the command computed for more than 1 seconds, the limit " + (
        OWN_TIME.variable
    )


def data_in_use():
    """Bytes of this process that count against the limit on data."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
    return int(pages) * resource.getpagesize()


def state():
    return resource.getrlimit(resource.RLIMIT_DATA), signal.getitimer(signal.ITIMER_PROF)[0] > 0


def test_limits_hold_until_they_are_released_from_any_thread():
    before, handler = state(), signal.getsignal(signal.SIGPROF)
    with limited():
        assert state()[0][0] <= data_in_use() + OWN_MEMORY.most * 2**20 + 2**28
        assert state()[1]
        thread = Thread(target=release)
        thread.start()
        thread.join()
        assert state() == before
    assert (state(), signal.getsignal(signal.SIGPROF)) == (before, handler)
    with pytest.raises(KeyError), limited():
        raise KeyError
    assert state() == before


def test_the_limits_are_neither_those_of_workers_nor_of_the_user(monkeypatch, service):
    monkeypatch.setenv(OWN_MEMORY.variable, "300")
    given, free = ulimits(), memory_to_use()
    with limited():
        assert state()[0][0] <= data_in_use() + 2**29
        assert ulimits() == given
        assert memory_to_use() > free // 2
        with WorkerProcess(service) as worker:
            data, _ = worker.call("limits")
    assert data[0] > 2**30


def test_the_longest_time_is_one_that_the_system_counts(monkeypatch):
    monkeypatch.setenv(OWN_TIME.variable, "9" * 18)
    with limited():
        assert state()[1]
