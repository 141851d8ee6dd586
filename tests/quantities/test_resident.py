"""Resident memory of a process, now and at its peak."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PROGRAM = """
from dlbricks_core.worker.memory import give_back, resident_mib
from dlbricks_quantities.resident import forget_peak, peak_mib

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
from dlbricks_quantities.resident import mapped_mib, own_mib

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
from dlbricks_core.worker.memory import keep_freed

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


ENDS = """
import ctypes, sys, threading
from dlbricks_core.worker.memory import give_back
from dlbricks_quantities.resident import own_mib, return_ends

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free(libc.malloc(24 << 20))  # raises both thresholds of glibc

def work():
    blocks = [libc.malloc(1 << 20) for _ in range(20)]
    for block in blocks:
        libc.memset(block, 1, 1 << 20)
    for block in blocks:
        libc.free(block)
    done.set()
    end.wait()

if sys.argv[1] == "ends":
    return_ends()
before = own_mib()
done, end = threading.Event(), threading.Event()
thread = threading.Thread(target=work)
thread.start()
done.wait()
give_back()
print(own_mib() - before)
end.set()
"""


@pytest.mark.parametrize(("asked", "left"), [("ends", 0), ("nothing", 20)])
def test_what_another_thread_freed_at_the_end_of_its_heap_is_returned_if_asked(asked, left):
    done = subprocess.run(
        [sys.executable, "-c", ENDS, asked], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(left, abs=3)
