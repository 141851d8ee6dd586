"""A short run of the script that mutates models; ``mutate.py`` tells how to run a long one."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).with_name("mutate.py")


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_files_are_read_or_refused_in_one_line(seed):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "150", "--seed", str(seed)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout
    assert "read" in done.stdout
