"""Limits on memory: how much is free, and that only the worker fails if it lacks any."""

import ctypes
import os
import resource
import subprocess
import sys
from ast import literal_eval

import pytest

from dlbricks_core.worker import RemoteError, WorkerError, WorkerProcess, memory_to_use
from dlbricks_core.worker.memory import available, container_limit

MIB, GIB = 2**20, 2**30
_SYS_RESOURCE, _DROP = 24, 24
"""The capability to raise limits, and prctl's option to give one up for good."""


@pytest.fixture
def system(tmp_path):
    """Files of /proc and /sys, by path."""

    def write(files):
        for path, content in {"proc/meminfo": "MemAvailable: 8388608 kB\n", **files}.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(str(content))
        return tmp_path

    return write


V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
INSIDE = {"proc/self/cgroup": "0::/a/b\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 8 * GIB),
        ({**INSIDE, f"{V2}/a/b/memory.max": "max", f"{V2}/a/b/memory.current": 5}, 8 * GIB),
        ({**INSIDE, f"{V2}/a/memory.max": 3 * GIB, f"{V2}/a/memory.current": GIB}, 2 * GIB),
        ({**INSIDE, f"{V2}/a/b/memory.high": GIB, f"{V2}/a/b/memory.current": 0}, GIB),
        # In a container of its own the group's path is not there, but the root of the mount.
        ({**INSIDE, f"{V2}/memory.max": GIB, f"{V2}/memory.current": GIB // 2}, GIB // 2),
        (
            {
                **INSIDE,
                f"{V2}/a/memory.max": 2 * GIB,
                f"{V2}/a/memory.current": 2 * GIB,
                f"{V2}/a/memory.stat": f"anon 1\ninactive_file {GIB}\n",
            },
            GIB,
        ),
        ({**INSIDE, f"{V2}/a/memory.max": GIB, f"{V2}/a/memory.current": 2 * GIB}, 0),
        (
            {
                "proc/self/cgroup": "4:cpu:/x\n3:memory:/docker/1\n",
                f"{V1}/memory.limit_in_bytes": GIB,
                f"{V1}/memory.usage_in_bytes": GIB // 2,
                f"{V1}/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB // 4}\n",
            },
            3 * GIB // 4,
        ),
    ],
)
def test_free_memory_is_that_of_the_container(system, files, free):
    root = system(files)
    assert available(root) == free
    assert memory_to_use(root) == int(0.9 * free)


def test_without_facts_of_the_system_the_c_library_gives_the_memory(tmp_path):
    assert available(tmp_path) is container_limit(tmp_path) is None
    assert memory_to_use(tmp_path) > 0


def test_every_worker_is_limited(service):
    with WorkerProcess(service) as worker:
        (data, hard), _ = worker.call("limits")
        assert 0 < data <= memory_to_use() + GIB
        assert hard == resource.getrlimit(resource.RLIMIT_DATA)[1]


def test_a_worker_that_lacks_memory_fails_only_that_call(service):
    with WorkerProcess(service, memory=256 * MIB) as worker:
        with pytest.raises(RemoteError, match="ran out of memory"):
            worker.call("take", 512, timeout=30)
        assert worker.call("take", 64, timeout=30) == 64 * 2**17


def test_reserved_memory_counts_only_once_it_is_used(service):
    with WorkerProcess(service, memory=4 * GIB, resident=256 * MIB) as worker:
        worker.call("reserve", 1024, timeout=30)
        with pytest.raises(WorkerError, match="memory"):
            worker.call("use", timeout=30)


USER = """
from dlbricks_core.worker import WorkerProcess, memory_to_use

with WorkerProcess({service!r}) as worker:
    print([*worker.call("limits", timeout=60)])
    worker.call("take", 1, timeout=60)
    print(memory_to_use())
    worker.call("take", 6000, timeout=60)
"""


def _limited(kind, soft, hard):
    """What a child does before its program: it takes limits, and can raise none again."""

    def limit():
        ctypes.CDLL(None).prctl(_DROP, _SYS_RESOURCE, 0, 0, 0)
        resource.setrlimit(kind, (soft, hard))

    return limit


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
@pytest.mark.parametrize("hard", [4 * GIB, resource.RLIM_INFINITY])
def test_limits_of_the_user_are_never_raised(service, kind, hard):
    done = subprocess.run(
        [sys.executable, "-c", USER.format(service=service)],
        preexec_fn=_limited(kind, 2 * GIB, hard),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    limits, usable = done.stdout.splitlines()
    found = literal_eval(limits)[kind == resource.RLIMIT_AS]
    assert found[0] <= 2 * GIB
    assert found[1] == hard
    assert int(usable) <= 2 * GIB
    assert "RemoteError: ran out of memory" in done.stderr
