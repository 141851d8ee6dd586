"""Resident memory of a process, now and at its peak."""

import subprocess
import sys

PROGRAM = """
from dlbricks_core.machine.resident import forget_peak, give_back, peak_mib, resident_mib

before = resident_mib()
block = bytearray(64 << 20)
block[::4096] = bytes(len(block[::4096]))
held = resident_mib()
del block
give_back()
after, peak = resident_mib(), peak_mib()
forget_peak()
print(before, held, after, peak, peak_mib())
"""


def test_the_peak_stays_until_it_is_reset():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, held, after, peak, forgotten = map(float, done.stdout.split())
    assert 60 < held - before < 68
    assert after - before < 4
    assert peak - before > 60
    assert forgotten - before < 4
