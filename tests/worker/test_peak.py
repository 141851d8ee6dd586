"""Peak memory of a run and its workers."""

from time import monotonic

import pytest

from dlbricks_core.worker import PEAKS, WorkerProcess
from dlbricks_core.worker.process import Peaks

pytestmark = pytest.mark.process

MIB = 2**20
SERVICE = """
import os, signal
class Eater:
    def eat(self, mib):
        self.kept = bytearray(mib << 20)
    def forget(self):
        self.kept = None
    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def eater(tmp_path, monkeypatch):
    (tmp_path / "eating.py").write_text(SERVICE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    return lambda: WorkerProcess("eating:Eater")


def test_what_a_worker_took_counts_when_it_has_given_it_back_and_ended(eater):
    begin, before = monotonic(), PEAKS.since(monotonic())
    with eater() as worker:
        worker.call("eat", 200)
        worker.call("forget")
    taken = PEAKS.since(begin) - before
    assert 200 * MIB < taken < 400 * MIB


def test_workers_that_lived_at_the_same_time_add_up_and_others_do_not(eater):
    begin, before = monotonic(), PEAKS.since(monotonic())
    for _ in range(3):
        with eater() as worker:
            worker.call("eat", 100)
    one_by_one = PEAKS.since(begin) - before
    with eater() as one, eater() as two:
        one.call("eat", 100)
        two.call("eat", 100)
        together = PEAKS.since(begin) - before
    assert 100 * MIB < one_by_one < 200 * MIB < together < 400 * MIB


def test_workers_from_before_do_not_count(eater):
    with eater() as worker:
        worker.call("eat", 150)
    begin = monotonic()
    assert PEAKS.since(begin) < PEAKS.since(0.0)


def test_a_worker_that_died_has_the_largest_peak_of_all_that_ended(eater):
    with eater() as worker:
        worker.call("eat", 50)
        begin = monotonic()
        with pytest.raises(Exception, match="killed"):
            worker.call("die")
    assert PEAKS.since(begin) > 50 * MIB


def test_a_process_that_is_not_known_does_no_harm():
    peaks = Peaks()
    peaks.look(1)
    peaks.end(1)
    assert peaks.since(0.0) > 0
