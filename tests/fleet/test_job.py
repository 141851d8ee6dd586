"""Jobs of a fleet are short processes: they spend little on starting and ending."""

from __future__ import annotations

import pickle
import subprocess
import sys

from dlbricks_fleet.job import PROGRAM
from dlbricks_fleet.records import Asked, Order

AT_THE_END = """
import atexit, gc, sys
atexit.register(lambda: print(
    gc.isenabled(), gc.get_freeze_count() > 10_000, "scipy.linalg" in sys.modules))
"""


def test_a_job_collects_garbage_while_it_works_only_and_imports_no_linear_algebra(tmp_path):
    result = tmp_path / "result"
    order = Order("key", Asked("absent", {}), None, None, 60.0)
    with subprocess.Popen(
        [sys.executable, "-c", AT_THE_END + PROGRAM, str(tmp_path), str(result)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as job:  # fmt: skip
        job.stdin.write(pickle.dumps(order))
        job.stdin.flush()  # its end would end the job
        assert job.stdout.read().split()[-3:] == [b"True", b"True", b"False"]
    assert pickle.loads(result.read_bytes())[0] == "refused"
