"""Whoever measures on a machine has the cores that it may run on for itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from dlbricks_core.errors import DLBricksError
from dlbricks_core.machine.load import (
    FOLDER,
    WAITING,
    give_turn,
    measurement_lock,
    take_turn,
    took_free_turn,
)

pytestmark = pytest.mark.process

#: Takes a turn, says so, and keeps it until its input ends.
OTHER = (
    "import sys\n"
    "from dlbricks_core.machine.load import measurement_lock\n"
    "with measurement_lock(lambda text: print('waiting', flush=True)):\n"
    "    print('has it', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Turns that are the test's own."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "turns"))
    return tmp_path / "turns"


@pytest.fixture
def other():
    """Starts other processes that take a turn, on some CPUs only if these are named."""
    started = []

    def start(cpus=None):
        process = subprocess.Popen(
            [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def line(process):
    return process.stdout.readline().strip()


def test_a_second_process_waits_until_the_first_ends_however_that_ends(folder, other):
    first, second = other(), None
    assert line(first) == "has it"
    second = other()
    assert line(second) == "waiting"
    first.send_signal(signal.SIGKILL)
    assert line(second) == "has it"


def test_a_process_takes_its_turn_once_however_many_of_its_parts_measure(folder, other):
    with measurement_lock():
        take_turn(pytest.fail)
        give_turn()
        waiting = other()
        assert line(waiting) == "waiting"  # the outer part still measures
    assert line(waiting) == "has it"


def test_who_waits_too_long_is_told_so(folder, other):
    assert line(other()) == "has it"
    said = []
    begin = time.monotonic()
    with pytest.raises(DLBricksError, match="another measurement has run on this machine"):
        take_turn(said.append, longest_s=0.5)
    assert time.monotonic() - begin < 30
    assert said == [WAITING]
    # Nothing is left of the attempt: the next one begins anew.
    with pytest.raises(DLBricksError):
        take_turn(said.append, longest_s=0.0)


def test_a_turn_is_taken_only_if_it_is_free(folder, other):
    assert took_free_turn()
    assert line(waiting := other()) == "waiting"
    give_turn()
    assert line(waiting) == "has it"
    assert not took_free_turn()


def test_who_waits_is_told_by_a_warning_if_by_nothing_else(folder, other):
    assert line(other()) == "has it"
    with pytest.warns(UserWarning, match="another measurement runs"), pytest.raises(DLBricksError):
        take_turn(longest_s=0.0)


def test_processes_on_different_cores_do_not_wait_for_each_other(folder, other):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU only")
    one, another = other({cpus[0]}), other({cpus[-1]})
    said = {line(one), line(another)}
    from dlbricks_core.machine.system import MachineState

    alike = cpus[-1] in MachineState().siblings(cpus[0])
    assert said == ({"has it", "waiting"} if alike else {"has it"})


def test_an_empty_folder_means_that_nobody_waits(monkeypatch, other):
    monkeypatch.setenv(FOLDER, "")
    assert line(other()) == "has it"
    with measurement_lock(pytest.fail):
        assert line(other()) == "has it"


def test_a_folder_that_cannot_be_made_is_a_warning_and_no_end(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FOLDER, str(tmp_path / "file" / "turns"))
    with pytest.warns(UserWarning, match="other measurements on this machine are not kept away"):
        take_turn()
    give_turn()


def test_files_of_turns_may_be_locked_by_any_user(folder):
    with measurement_lock():
        found = list(folder.iterdir())
        assert found
        assert folder.stat().st_mode & 0o1777 == 0o1777
        assert all(each.stat().st_mode & 0o444 == 0o444 for each in found)
