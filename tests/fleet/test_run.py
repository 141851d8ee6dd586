"""A suite is measured by real hosts of a fleet: once, by each kind, and into the client's store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "dlbricks.schema.json").read_text("utf-8"))
ON = ("--backend", "onnxruntime", "--threads", "1")


@pytest.fixture(scope="module")
def measured(start, scheduler, hosts, suite):
    """Status, output and JSON of a run of the suite."""
    return run(start, scheduler, "first")


def run(start, scheduler, name, *more, suite="suite", on=ON, runs=3):
    arguments = ("--runs", runs, "--store", f"{name}.db", "--json", f"{name}.json")
    command = start("run", suite, "--scheduler", scheduler, *on, *arguments, *more)
    status, out, err = command.done()
    path = start.folder / f"{name}.json"
    return status, out, err, json.loads(path.read_text()) if path.exists() else None


def samples(start, name):
    with ResultStore.open(start.folder / f"{name}.db", writes=False) as store:
        return {each.question: each.values for each in store.measurements()}


def test_each_brick_is_measured_once_and_equal_hosts_share_them(start, hosts, measured):
    status, out, _, data = measured
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    (kind,) = data["kinds"]
    assert kind["bricks"] == kind["known"] == kind["measured"] > 2
    assert kind["hosts"] == 2
    assert sum(each["bricks"] for each in data["hosts"]) == kind["bricks"]
    assert all(each["bricks"] for each in data["hosts"])
    assert data["failures"] == []
    taken = samples(start, "first")
    assert len(taken) == kind["bricks"]
    assert {len(each) for each in taken.values()} == {3}


def test_hosts_see_nothing_but_the_suite(start, scheduler, hosts, generated):
    suite = generated("watched", (8, 24))
    (suite / "notes").mkdir()
    for name in (".env", "notes/key.json"):
        (suite / name).write_text("secret", "utf-8")
    assert run(start, scheduler, "watched", suite=suite)[0] == 0
    kept = {each.name for each in start.folder.rglob("*") if suite not in each.parents}
    assert {"manifest.json"} <= kept
    assert not kept & {".env", "key.json"}


def test_what_is_written_is_what_the_schema_says(start, scheduler, measured, closed):
    *_, data = measured
    jsonschema.validate(data, {**closed(SCHEMA), "$ref": "#/$defs/fleet_run"})
    status, *_ = start("status", "--scheduler", scheduler, "--json", "status.json").done()
    assert status == 0
    shown = json.loads((start.folder / "status.json").read_text())
    jsonschema.validate(shown, {**closed(SCHEMA), "$ref": "#/$defs/fleet_status"})


def test_what_the_hosts_have_is_not_measured_again_and_a_store_takes_it_once(
    start, scheduler, measured
):
    before = samples(start, "first")
    status, out, _, data = run(start, scheduler, "first")
    assert (status, data["kinds"][0]["measured"]) == (0, 0)
    assert "0 bricks timed now" in " ".join(out.split())
    assert samples(start, "first") == before
    _, _, _, other = run(start, scheduler, "second")
    assert other["kinds"][0]["known"] == len(before)
    # Each host has measured its own shares; the one asked for others' may measure those.
    assert samples(start, "second").keys() == before.keys()


def test_a_share_that_hangs_is_ended_and_named(start, scheduler, hosts, generated):
    suite = generated("single", (16, 24))  # one brick is one share, which is tried several times
    status, out, err, data = run(
        start, scheduler, "hung", "--deadline", "0.1s", suite=suite, runs=100000
    )
    assert status == 3
    assert "no result within" in out + err
    assert data["failures"]
    assert "no result within" in data["failures"][0]["reason"]


def test_a_backend_that_no_host_has_is_one_line_and_status_2(start, scheduler, hosts, suite):
    status, _, err, _ = run(
        start, scheduler, "none", on=("--backend", "onnxruntme", "--threads", "1")
    )
    assert status == 2
    assert "Error: unknown backend 'onnxruntme'" in err


def test_a_fleet_without_hosts_is_one_line_after_the_time_to_wait(start, suite):
    lonely = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    address = lonely.says("Scheduler at").split()[-1]
    status, _, err, _ = run(start, address, "lonely", "--wait", "1s")
    assert status == 2
    assert f"no host has joined {address} within 1 s" in err
    assert f"Hint: Join one with: dlbricks fleet worker --scheduler {address}" in err
    assert lonely.end()[0] == 130


def test_a_scheduler_that_is_not_there_is_one_line(start, suite):
    status, _, err, _ = run(start, "tcp://127.0.0.1:9", "absent")
    assert status == 2
    assert "no scheduler answers at tcp://127.0.0.1:9" in err


def test_a_scheduler_that_is_none_of_a_fleet_is_one_line(start):
    words = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    with subprocess.Popen(
        [sys.executable, *words, "--no-dashboard"], stderr=subprocess.PIPE, text=True
    ) as plain:
        address = next(line for line in plain.stderr if "Scheduler at" in line).split()[-1]
        status, _, err = start("status", "--scheduler", address).done()
        plain.kill()
    assert status == 2
    assert f"the scheduler of this fleet is not at {address}" in err


def test_status_shows_hosts_with_what_they_do_and_how_far_a_run_is(
    start, scheduler, hosts, suite, wait_for
):
    going = start("run", "suite", "--scheduler", scheduler, *ON, "--runs", "100000",
                  "--store", "long.db")  # fmt: skip
    wait_for(scheduler, lambda fleet: any("times" in host.doing for host in fleet.hosts))
    start("status", "--scheduler", scheduler, "--json", "now.json").done()
    now = json.loads((start.folder / "now.json").read_text())
    (state,) = now["runs"]
    assert state["backend"] == "onnxruntime"
    assert {each["address"] for each in now["hosts"]} == set(hosts)
    assert any("times" in (each["doing"] or "") for each in now["hosts"])
    status, said = going.end()
    assert status == 130
    assert "All measurements are kept on the hosts; run it again to go on." in said
    # Nobody waits for it any longer: the hosts end their jobs.
    rest = wait_for(scheduler, lambda fleet: not any(host.doing for host in fleet.hosts))
    assert rest.runs == []


def test_a_worker_ends_at_ctrl_c(start, scheduler):
    worker = start("worker", "--scheduler", scheduler, "--spool", "other")
    worker.says("Joined")
    status, said = worker.end()
    assert status == 130
    assert "All measurements are kept here; the same command joins again." in said


def test_a_scheduler_and_a_worker_leave_no_files_of_dask(start, tmp_path):
    before = set((start.folder / "tmp").iterdir())
    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    address = scheduler.says("Scheduler at").split()[-1]
    worker = start("worker", "--scheduler", address, "--spool", tmp_path)
    worker.says("Joined")
    assert set((start.folder / "tmp").iterdir()) > before  # there are some meanwhile
    worker.end()
    scheduler.end()
    assert set((start.folder / "tmp").iterdir()) == before
    assert not [*(start.folder / "tmp").glob("dask*"), *tmp_path.glob("dask*")]


def test_without_the_extra_a_fleet_is_one_line_and_the_rest_runs(tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError('no module of that name')")
    for arguments, status, words in [
        (("fleet", "status", "--scheduler", "tcp://a:1"), 2, "pip install distributed"),
        (("fleet", "--help"), 0, ""),
    ]:
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
             "from dlbricks_core.cli import main; main()", *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status
        assert words in done.stderr
        assert "Traceback" not in done.stderr
