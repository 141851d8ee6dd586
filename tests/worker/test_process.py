import os
import platform
import time
from contextlib import suppress

import pytest

from dlbricks_core.errors import BackendError, ModelError
from dlbricks_core.measure.worker import KEEPS_MEMORY
from dlbricks_core.worker import RemoteError, WorkerError, WorkerProcess

pytestmark = pytest.mark.process

SERVICE = """
import atexit, errno, gc, os, resource, signal, sys, threading, time
import numpy as np
from dlbricks_core.errors import ModelError

class Service:
    def add(self, a, b):
        return a + b
    def variable(self, name):
        return os.environ.get(name)
    def segfault(self):
        os.kill(os.getpid(), signal.SIGSEGV)
    def leave(self):
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    def killed(self):
        os.kill(os.getpid(), signal.SIGKILL)
    def sleep(self, seconds):
        time.sleep(seconds)
    def spin(self, seconds):
        end = time.monotonic() + seconds
        def spin():
            while time.monotonic() < end:
                pass
        threading.Thread(target=spin).start()
    def wrong(self):
        raise ValueError("first line\\nsecond line")
    def wrong_at_length(self):
        raise ValueError("layer 7: " + "a signature, " * 50 + "the reason")
    def write_on_a_full_disk(self):
        raise OSError(errno.ENOSPC, "No space left on device")
    def refuse(self):
        raise ModelError("not this one", hint="another")
    def faults(self):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        maps = [bytearray(2**24) for _ in range(4)]
        for each in maps:
            each[::4096] = bytes(2**12)
        del maps, each
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    def big(self, size):
        return np.zeros(size)
    def abort_for_memory(self):
        print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr)
        sys.stderr.flush()
        os.abort()
    def collections(self, objects):
        def number():
            return sum(each["collections"] for each in gc.get_stats())
        before = number()
        kept = [[] for _ in range(objects)]
        return number() - before
    def tell_at_the_end(self, path):
        def tell():
            with open(path, "w") as file:
                file.write(str(gc.get_freeze_count()))
        atexit.register(tell)
"""


@pytest.fixture
def worker(tmp_path, path_with):
    (tmp_path / "service_for_test.py").write_text(SERVICE)
    with WorkerProcess(
        "service_for_test:Service", {"PYTHONPATH": path_with(tmp_path), "SPECIAL": "value"}
    ) as process:
        yield process


def test_calls_run_in_an_environment_of_their_own(worker):
    assert worker.call("add", 2, 3) == 5
    assert worker.call("variable", "SPECIAL") == "value"
    assert "SPECIAL" not in os.environ


def test_a_call_may_begin_before_its_result_is_needed(worker):
    assert worker.call("add", 1, 1) == 2
    worker.begin("sleep", 2)
    time.sleep(2)
    begin = time.monotonic()
    worker.call("sleep", 2)
    assert time.monotonic() - begin < 1.5
    assert worker.call("add", 1, 1) == 2


def test_a_call_that_begins_after_the_end_of_the_child_fails_where_its_result_is_needed(worker):
    with suppress(WorkerError):
        worker.call("killed")
    worker.begin("add", 1, 1)
    with pytest.raises(WorkerError, match="killed"):
        worker.call("add", 1, 1)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than glibc's")
def test_a_worker_imports_no_code_from_the_current_folder(tmp_path, monkeypatch, path_with):
    (tmp_path / "service_for_test.py").write_text(SERVICE)
    here = tmp_path / "here"
    here.mkdir()
    for name in ("service_for_test", "numpy", "onnx", "json"):
        (here / f"{name}.py").write_text("open('ran', 'a').close()\n")
    monkeypatch.chdir(here)
    with WorkerProcess("service_for_test:Service", {"PYTHONPATH": path_with(tmp_path)}) as process:
        assert process.call("add", 1, 2) == 3
    assert not (here / "ran").exists()


def test_an_environment_may_keep_freed_memory(tmp_path, path_with):
    (tmp_path / "service_for_test.py").write_text(SERVICE)
    environment = {"PYTHONPATH": path_with(tmp_path), **KEEPS_MEMORY}
    with WorkerProcess("service_for_test:Service", environment) as process:
        first, *later = (process.call("faults") for _ in range(3))
    assert first > 10_000
    assert max(later) < 1_000


def test_large_results_come_back(worker):
    assert worker.call("big", 5_000_000, timeout=30).nbytes == 40_000_000


def test_an_exception_is_reported_and_the_worker_goes_on(worker):
    with pytest.raises(RemoteError, match="ValueError: first line") as caught:
        worker.call("wrong")
    assert 'raise ValueError("first line' in str(caught.value.__cause__)
    assert worker.call("add", 1, 1) == 2


def test_a_long_reason_keeps_its_start_and_its_end(worker):
    with pytest.raises(
        RemoteError, match=r"ValueError: layer 7: .* \.\.\. .* the reason$"
    ) as raised:
        worker.call("wrong_at_length")
    assert len(str(raised.value)) < 400


TELLING = """
class Telling:
    def wrong(self):
        raise ValueError("a stack\\nthe reason")
    def doubly_wrong(self):
        raise KeyError("first")
    def reason(self, error):
        return {ValueError: str(error).splitlines()[-1]}[type(error)]
"""


def test_a_service_may_say_what_an_exception_means(tmp_path, path_with):
    (tmp_path / "telling_for_test.py").write_text(TELLING)
    with WorkerProcess("telling_for_test:Telling", {"PYTHONPATH": path_with(tmp_path)}) as process:
        with pytest.raises(RemoteError, match=r"^the reason$"):
            process.call("wrong")
        with pytest.raises(RemoteError, match=r"KeyError: 'first' \(telling the reason failed"):
            process.call("doubly_wrong")
        with pytest.raises(RemoteError, match="the reason"):
            process.call("wrong")


def test_an_error_for_users_arrives_as_it_was_raised(worker):
    with pytest.raises(ModelError, match="not this one") as caught:
        worker.call("refuse")
    assert caught.value.hint == "another"
    assert 'raise ModelError("not this one"' in str(caught.value.__cause__)


def test_the_traceback_in_the_worker_is_logged(worker, caplog):
    with caplog.at_level("DEBUG", logger="dlbricks_core"):
        for method in ("wrong", "refuse"):
            with pytest.raises(BackendError if method == "wrong" else ModelError):
                worker.call(method)
    (record,) = caplog.records  # a refusal on purpose is not logged
    assert record.getMessage().startswith("wrong failed in its worker:\nTraceback")


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("segfault", "crashed .SIGSEGV"),
        ("leave", "crashed .exit status 3"),
        ("killed", "lack of memory"),
        ("abort_for_memory", "ran out of memory"),
    ],
)
def test_the_reason_of_a_workers_death_is_reported(worker, method, reason):
    with pytest.raises(WorkerError, match=reason):
        worker.call(method, timeout=30)


def test_the_last_output_of_a_worker_is_the_hint(worker):
    with pytest.raises(WorkerError) as caught:
        worker.call("leave", timeout=30)
    assert caught.value.hint == "last words"


def test_a_hanging_call_is_killed_at_its_limit(worker):
    worker.call("add", 1, 1)
    begin = time.monotonic()
    with pytest.raises(WorkerError, match=r"no answer within 0\.5 s"):
        worker.call("sleep", 60, timeout=0.5)
    assert time.monotonic() - begin < 10


def test_a_call_may_wait_longer_than_sockets_can(worker):
    assert worker.call("big", 5, timeout=1e308).nbytes == 40


def test_calls_to_a_dead_worker_fail_with_the_same_reason(worker):
    with pytest.raises(WorkerError):
        worker.call("segfault", timeout=30)
    with pytest.raises(BackendError):
        worker.call("add", 1, 1)


@pytest.mark.parametrize(("timeout", "rests"), [(10, True), (0.05, False)])
def test_rest_waits_for_threads_that_go_on_after_a_call(worker, timeout, rests):
    worker.call("spin", 0.5)
    begin = time.monotonic()
    worker.rest(timeout)
    waited = time.monotonic() - begin
    assert (0.3 < waited < 5) if rests else (0.05 <= waited < 0.3)


def test_resting_a_worker_that_has_ended_does_nothing(worker):
    worker.kill()
    begin = time.monotonic()
    worker.rest(10)
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize(
    ("method", "ending"), [("segfault", "SIGSEGV"), ("leave", "exit status 3"), ("variable", "")]
)
def test_the_way_a_worker_ended_is_known(worker, method, ending):
    assert worker.ending == ""
    with suppress(WorkerError):
        worker.call(method, *["x"] * (method == "variable"))
    worker.close()
    assert worker.ending == ending


def test_a_worker_ends_without_looking_for_garbage(worker, tmp_path):
    worker.call("tell_at_the_end", str(tmp_path / "frozen"))
    worker.close()
    assert int((tmp_path / "frozen").read_text()) > 10_000


def test_a_worker_seldom_looks_for_garbage_while_objects_come_that_stay(worker):
    assert worker.call("collections", 20_000) <= 1
    assert worker.call("collections", 200_000) >= 2


def test_a_full_disk_of_temporary_files_is_told_with_what_to_do(worker):
    with pytest.raises(RemoteError, match=r"no space is left for temporary files: .* TMPDIR"):
        worker.call("write_on_a_full_disk")
    assert worker.call("add", 1, 2) == 3
