"""Several real processes on one store, and a process that is killed."""

import dataclasses
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from dlbricks_records.contents import info

from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.store import ResultStore
from dlbricks_core.store.schema import metadata

pytestmark = pytest.mark.process

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")

START = """
import dataclasses, pathlib, sys, time
from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.store import ResultStore
place, name, go = sys.argv[1:]
setup = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
key = Question(Subject("abc", "brick"), LATENCY, setup, "sys")
print("ready", flush=True)
while not pathlib.Path(go).exists():
    time.sleep(0.001)
"""

HAMMER = """
with ResultStore.open(place) as store:
    for i in range(150):
        shared = dataclasses.replace(key, subject=Subject(f"brick{i}", "brick"))
        store.add_samples(shared, Observation(name, 0, (i + 1.0,)), ["Conv"])
        store.add_samples(shared, Observation(name, 1, (i + 1.0,)), ["Conv"])
"""

FOREVER = """
store = ResultStore.open(place)
round = 0
while True:
    store.add_samples(key, Observation(name, round, (round + 1.0,)))
    print(round, flush=True)
    round += 1
"""


def start(body, place, name, go):
    command = [sys.executable, "-c", START + body, place, name, go]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_together(body, place, count, go):
    processes = [start(body, place, f"session{i}", go) for i in range(count)]
    for process in processes:
        process.stdout.readline()
    go.touch()
    # All are ended before one is checked; otherwise they would run on during other tests.
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * count, errors


def test_processes_that_write_the_same_measurements_lose_nothing(place, tmp_path):
    ResultStore.open(place).close()
    run_together(HAMMER, place, 2, tmp_path / "go")
    keys = [dataclasses.replace(KEY, subject=Subject(f"brick{i}", "brick")) for i in range(150)]
    with ResultStore.open(place) as store:
        found = store.get(keys)
        assert info(store).measurements == 150
    for i, key in enumerate(keys):
        taken = {(samples.session, samples.round) for samples in found[key].observations}
        assert taken == {(f"session{s}", r) for s in range(2) for r in range(2)}
        assert found[key].values == (i + 1.0,) * 4


def test_processes_that_open_a_new_store_together_do_not_collide(unused, tmp_path):
    body = "ResultStore.open(place).add_samples(key, Observation(name, 0, (1.0,)))"
    run_together(body, unused, 5, tmp_path / "go")
    with ResultStore.open(unused) as store:
        assert {samples.session for samples in store.get([KEY])[KEY].observations} == {
            f"session{i}" for i in range(5)
        }


def test_a_file_that_another_process_is_creating_is_waited_for(tmp_path):
    path = tmp_path / "results.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    with ResultStore.open(path) as store:
        assert info(store).measurements == 0
    other.close()


def test_a_killed_process_loses_nothing_that_it_has_added(place, tmp_path):
    (tmp_path / "go").touch()
    process = start(FOREVER, place, "killed", tmp_path / "go")
    reported = []
    deadline = time.monotonic() + 30
    while len(reported) < 100 and time.monotonic() < deadline:
        line = process.stdout.readline().strip()
        if line.isdigit():
            reported.append(int(line))
    process.send_signal(signal.SIGKILL)
    # Not communicate(): it would miss what readline took from the pipe beyond its line.
    rest = process.stdout.read()
    process.wait()
    # The last line may be cut off.
    reported += [int(line) for line in rest.split("\n")[:-1]]
    assert process.returncode == -signal.SIGKILL
    with ResultStore.open(place) as store:
        kept = [samples.round for samples in store.get([KEY])[KEY].observations]
        assert kept == list(range(len(kept)))
        # One more may have been committed than was reported.
        assert len(reported) <= len(kept) <= len(reported) + 1
        store.add_samples(KEY, Observation("resumed", 0, (1.0,)))


#: Opens a store in four forks at once, and kills as many of them as it reads, one after another.
ROUND = """
import os, signal, sys, time
from dlbricks_core.store import ResultStore

for line in sys.stdin:
    place, *pauses = line.split()
    reading, writing = os.pipe()
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)  # until all are there
            ResultStore.open(place).close()
            os._exit(0)
        children.append(child)
    os.close(reading)
    os.close(writing)
    for child, pause in zip(children, pauses):
        time.sleep(float(pause))
        os.kill(child, signal.SIGKILL)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(*ends[len(pauses):], flush=True)
"""


def test_a_new_database_has_its_tables_whoever_made_them_and_was_killed_meanwhile(postgres):
    url = postgres.create()
    rng = random.Random(5)
    with subprocess.Popen([sys.executable, "-c", ROUND], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:  # fmt: skip
        for number in range(9):
            killed = (0, 1, 3)[number % 3]
            pauses = " ".join(str(rng.uniform(0, 0.03)) for _ in range(killed))
            process.stdin.write(f"{url} {pauses}\n")
            process.stdin.flush()
            assert process.stdout.readline().split() == ["0"] * (4 - killed), number
            tables = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
                                      of=url)  # fmt: skip
            assert {name for (name,) in tables} == {"alembic_version", *metadata.tables}, number
            postgres.execute("DROP SCHEMA public CASCADE", of=url)
            postgres.execute("CREATE SCHEMA public", of=url)
