"""Resident memory of a process, now and at its peak."""

import subprocess
import sys

PROGRAM = """
from dlbricks_core.worker.resident import forget_peak, give_back, peak_mib, resident_mib

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


PARTS = """
import mmap, sys
from dlbricks_core.worker.resident import mapped_mib, own_mib

own, mapped = own_mib(), mapped_mib()
with open(sys.argv[1], "rb") as file:
    pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    read = sum(pages[::4096])
    print(own_mib() - own, mapped_mib() - mapped)
    block = bytearray(b"1") * (64 << 20)
    print(own_mib() - own, mapped_mib() - mapped)
"""


def test_pages_of_files_are_told_from_what_belongs_to_no_file(tmp_path):
    file = tmp_path / "pages"
    file.write_bytes(bytes(32 << 20))
    command = [sys.executable, "-c", PARTS, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (own, mapped), (more, same) = (map(float, line.split()) for line in done.stdout.splitlines())
    assert own < 2
    assert 31 < mapped < 34
    assert 63 < more < 67
    assert same - mapped < 2


def test_the_peak_stays_until_it_is_reset():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, held, after, peak, forgotten = map(float, done.stdout.split())
    assert 60 < held - before < 68
    assert after - before < 4
    assert peak - before > 60
    assert forgotten - before < 4


FAULTS = """
import resource, sys
from dlbricks_core.worker.resident import keep_freed

if sys.argv[1:]:
    keep_freed()

def run():
    blocks = [bytearray(4 << 20) for _ in range(4)]  # more than glibc keeps by itself

for _ in range(3):
    run()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    run()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10)
"""


def test_freed_memory_that_is_kept_costs_no_page_faults():
    usual, kept = (
        float(subprocess.check_output([sys.executable, "-c", FAULTS, *words]))
        for words in ([], ["keep"])
    )
    assert usual > 1000
    assert kept < 10
