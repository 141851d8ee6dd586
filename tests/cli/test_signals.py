"""Signals end a command as Ctrl-C does; limits that the user has set are kept."""

import contextlib
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import onnx
import psutil
import pytest

from dlbricks_core.worker.memory import LEAST

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.process


def run(runs, model):
    return ("--backend", "onnxruntime", "--threads", "1", "--runs", runs, "--composer",
            "sequential", "--store", "results.sqlite", model)  # fmt: skip


#: Goes on for longer than any test.
RUN = run(10**6, "small.onnx")


@pytest.fixture
def start(tmp_path, monkeypatch, save):
    """Starts a command that has a folder for temporary files to itself, and a small model."""
    save("small", "Relu", "Sigmoid", size=256)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    started = []

    def begin(*arguments, before=lambda: None):
        def prepare():
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            # Tests that run in the background of a shell ignore Ctrl-C.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            before()

        command = [sys.executable, "-m", "dlbricks_core.cli", *map(str, arguments)]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=prepare,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return met


def samples(path):
    if not path.exists():
        return 0
    with sqlite3.connect(path) as connection:
        try:
            return connection.execute("SELECT count(*) FROM observations").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


def clean(tmp_path, children):
    """Whether a run has left nothing but its samples."""
    running = [c for c in children if c.is_running() and c.status() != psutil.STATUS_ZOMBIE]
    return not running and not any((tmp_path / "temporary").iterdir())


def test_a_signal_ends_a_run_and_keeps_what_was_measured_but_not_one_that_nohup_ignores(
    start, tmp_path
):
    process = start(*RUN, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert until(lambda: samples(tmp_path / "results.sqlite") > 10)
    process.send_signal(signal.SIGHUP)
    so_far = samples(tmp_path / "results.sqlite")
    assert until(lambda: samples(tmp_path / "results.sqlite") > so_far + 10)
    assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.startswith("Interrupted. All measurements are in the store")
    assert out == ""
    assert samples(tmp_path / "results.sqlite") > 10
    assert clean(tmp_path, children)


@pytest.fixture(scope="module")
def long_record(chain, in_folder, tmp_path_factory):
    """Record of a run of so many rounds that it goes on for longer than any test."""
    folder = tmp_path_factory.mktemp("record")
    model, path = folder / "small.onnx", folder / "record.json"
    onnx.save(chain("Relu", "Sigmoid", size=256), model)
    assert in_folder(folder, *run(1, model), "--json", "run.json").status == 0
    assert in_folder(folder, "results", "record", "run.json", "--json", path).status == 0
    record = json.loads(path.read_text())
    record["protocol"]["runs"] = 10**6
    path.write_text(json.dumps(record))
    return path


@pytest.mark.parametrize(
    ("kept", "number"), [(False, signal.SIGTERM), (True, signal.SIGHUP)], ids=str
)
def test_a_rerun_that_is_ended_tells_whether_a_store_has_what_was_measured(
    start, tmp_path, long_record, kept, number
):
    process = start(
        "results", "repeat", long_record, *(("--store", "again.sqlite") if kept else ())
    )

    def measured():
        stores = [tmp_path / "again.sqlite", *tmp_path.glob("temporary/*/repeated.sqlite")]
        return sum(map(samples, stores)) > 10

    assert until(measured)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    told = "are in the store" if kept else "are thrown away"
    assert err.startswith(f"Interrupted. The new measurements {told}")
    assert "go on" not in err
    assert (samples(tmp_path / "again.sqlite") > 10) == kept
    assert clean(tmp_path, children)


@pytest.mark.parametrize("seconds", [0.4, 1.2, 2.0])
def test_a_run_that_is_killed_at_any_time_leaves_no_processes(start, tmp_path, seconds):
    process = start(*RUN)
    time.sleep(seconds)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate(timeout=30)
    assert until(lambda: clean(tmp_path, children), 20)


def test_a_second_signal_ends_at_once_and_leaves_nothing(start, tmp_path):
    process = start(*RUN)
    assert until(lambda: samples(tmp_path / "results.sqlite") > 10)
    children = psutil.Process(process.pid).children(recursive=True)
    for child in children:
        child.suspend()  # guards that do not answer have to be waited for
    process.terminate()
    time.sleep(0.3)
    begin = time.monotonic()
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() - begin < 3
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker may be gone already
            child.resume()
    assert until(lambda: clean(tmp_path, children), 20)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "Interrupted.\n"), (["--measure"], "Interrupted. All measurements are in the store; ")],
)
def test_measurements_are_spoken_of_only_where_something_is_measured(
    dlbricks, monkeypatch, arguments, words
):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dlbricks_core.commands.estimate.actions.EstimateJob.run", interrupted)
    done = dlbricks("estimate", "small.onnx", "--backend", "onnxruntime", *arguments)
    assert done.status == 130
    assert done.err.startswith(words)


def test_the_api_installs_no_handlers():
    code = (
        "import signal, dlbricks_core as dlbricks\n"
        "from dlbricks_core.worker import WorkerProcess\n"
        "before = {n: signal.getsignal(n) for n in signal.valid_signals()}\n"
        "dlbricks.load\n"
        "with WorkerProcess('builtins:object') as worker: pass\n"
        "assert before == {n: signal.getsignal(n) for n in signal.valid_signals()}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


LIMITED = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}


def _limit(size, kind=resource.RLIMIT_DATA):
    return lambda: resource.setrlimit(kind, (size, size))


def test_a_run_stays_within_limits_of_the_user(start, tmp_path):
    process = start(*run(1, "small.onnx"), before=_limit(2**30))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_a_limit_too_low_for_the_framework_is_named_in_one_line(start, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    # If memory ends while CPython 3.11 unwinds an exception, it tries to allocate an integer for
    # ever. The worker then ends at the time limit.
    command = *RUN[2:], "--backend", "pytorch", "--timeout", "5"
    process = start(*command, before=_limit(LEAST["ulimit -v"], resource.RLIMIT_AS))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    first, hint = err.strip().splitlines()
    assert first.startswith("Error: pytorch does not start within ulimit -v 524288 (0.5 GB): ")
    assert hint.startswith("Hint: Raise or remove that limit")


@pytest.mark.parametrize(
    ("kind", "megabytes", "command"),
    [
        ("ulimit -v", 60, "show"),
        ("ulimit -v", 100, "estimate"),
        ("ulimit -v", 180, "show"),
        ("ulimit -d", 60, "estimate"),
        ("ulimit -d", 100, "show"),
        ("ulimit -d", 180, "estimate"),
    ],
)
def test_a_limit_too_low_for_any_command_is_named_at_once(start, megabytes, command, kind):
    limit = _limit(megabytes * 10**6, LIMITED[kind])
    process = start(command, "small.onnx", before=limit)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, "")
    first, hint = err.splitlines()
    assert re.match(rf"Error: {kind} \d+ leaves {megabytes} MB: a command needs", first)
    assert hint.startswith("Hint: Raise or remove that limit")


@pytest.mark.parametrize("kind", ["ulimit -v", "ulimit -d"])
def test_the_least_limit_is_enough_for_a_prediction(start, kind):
    limit = _limit(LEAST[kind], LIMITED[kind])
    command = "estimate", "--backend", "onnxruntime", "--store", "none.sqlite", "small.onnx"
    _, err = (process := start(*command, before=limit)).communicate(timeout=60)
    assert process.returncode == 0, err


def test_a_framework_that_hangs_at_its_start_is_named(dlbricks, tmp_path, monkeypatch, save):
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text("import time; time.sleep(300)")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    model = save("good", "Relu")
    assert dlbricks("show", model).status == 0  # imported once, which also takes its time
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr("dlbricks_core.measure.worker._START_S", 0.5)
    done = dlbricks("--backend", "onnxruntime", "--threads", "1", "--timeout", "1", "--composer",
                    "sequential", "--store", "results.sqlite", model)  # fmt: skip
    assert done.status == 2
    assert "onnxruntime does not start: no answer within 1.5 s" in done.err
    assert "Traceback" not in done.err


#: Says that it starts, as late as the interpreter's own start lasts, and does what a shell runs.
LOADING = """
import os
import dlbricks_core, contextlib, signal
os.write(1, b"@")
from dlbricks_core.cli import main
main()
"""


def _computed_ms(process):
    """Milliseconds that a process has computed for, however long it waited for its turn."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e6


def _signalled(command, number, delay_ms):
    """Status and messages of a command that gets a signal once it has computed for so long."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout.read(1) == b"@"
    then = _computed_ms(process) + delay_ms
    assert until(lambda: process.poll() is not None or _computed_ms(process) >= then)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def test_few_modules_load_before_signals_are_handled():
    """A signal in between prints a traceback."""
    code = (
        "import sys; from dlbricks_core.commands import signals;"
        "print(*sorted(each for each in sys.modules if each.startswith('dlbricks_core')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert set(loaded.split()) == {
        "dlbricks_core", "dlbricks_core.errors", "dlbricks_core.lazy", "dlbricks_core.version",
        "dlbricks_core.commands", "dlbricks_core.commands.signals",
    }  # fmt: skip


@pytest.mark.parametrize(("number", "first_ms"), [(signal.SIGINT, 15), (signal.SIGTERM, 60)])
def test_a_signal_while_modules_load_prints_one_line(number, first_ms, save, tmp_path):
    """Extension modules of numpy and scipy load at most of these times.

    The two signals have the same handler: each has every second of the times.
    """
    model = save("small", "Relu")
    command = [sys.executable, "-c", LOADING, "estimate", "--backend", "onnxruntime", str(model),
               "--store", str(tmp_path / "none.sqlite")]  # fmt: skip
    interrupted = 0
    for delay_ms in range(first_ms, 600, 90):
        status, said = _signalled(command, number, delay_ms)
        # Before the first command is read, a signal other than Ctrl-C ends the process by itself.
        assert status in (0, 128 + number, -number), (delay_ms, said.decode())
        assert b"Traceback" not in said, (delay_ms, said.decode())
        assert status <= 0 or said.splitlines()[-1].startswith(b"Interrupted.")
        interrupted += status == 128 + number
    assert interrupted >= 3
