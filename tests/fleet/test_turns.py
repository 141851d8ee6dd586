"""A fleet and local commands measure on a machine one after the other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dlbricks_core.machine.load import FOLDER, WAITING, measurement_lock

HOW = ("--backend", "onnxruntime", "--threads", "1", "--runs", "2")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path / "turns"))


def test_a_local_command_waits_while_another_measures_and_says_so(folder, suite):
    with measurement_lock():
        bench = ("suite", "time", "suite", *HOW, "--busy", "accept", "--store", "local.db")
        waiting = subprocess.Popen(
            [sys.executable, "-m", "dlbricks_core.cli", *bench],
            cwd=suite.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert any(WAITING in line for line in waiting.stderr)
        assert waiting.poll() is None
    _, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err


def test_a_job_of_a_fleet_waits_while_a_local_command_measures(folder, start, suite, wait_for):
    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    address = ("--scheduler", scheduler.says("Scheduler at").split()[-1])
    start("worker", *address, "--spool", "waits").says("Joined")
    with measurement_lock():
        going = start("run", "suite", *address, *HOW, "--store", "waits.db", "--deadline", "60s")
        waits = "waits for another measurement"
        wait_for(address[1], lambda fleet: waits in fleet.hosts[0].doing)
    status, _, err = going.done()
    assert status == 0, err
