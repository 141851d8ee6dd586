from __future__ import annotations

import time
from pathlib import Path

import pytest

SERVICE = '''
import ctypes, os, resource, signal, subprocess, sys, tempfile, threading, time
import numpy as np

class Service:
    def add(self, a, b):
        return a + b
    def hold_the_lock(self, marker=None):
        """A call into C that never returns and never lets another thread of Python run."""
        if marker:
            open(marker, "w").close()
        ctypes.PyDLL(None).pause()
    def sleep(self, seconds):
        time.sleep(seconds)
    def start_others(self):
        """Processes of the own group and of a session of their own."""
        return [
            subprocess.Popen(["sleep", "300"], start_new_session=apart).pid
            for apart in (False, True)
        ]
    def temporary(self):
        return tempfile.mkdtemp()
    def print_on(self, megabytes):
        for _ in range(megabytes):
            print("x" * 2**20)
        print("the end", flush=True)
    def print_and_die(self):
        self.print_on(1)
        os._exit(5)
    def close_and_live(self):
        os.closerange(3, 100)
        time.sleep(300)
    def say_garbage(self, text):
        import gc, socket
        gc.unfreeze()
        (end,) = [each for each in gc.get_objects() if isinstance(each, socket.socket)]
        end.sendall(text)
        time.sleep(300)
    def unpicklable(self):
        return threading.Lock()
    def pid(self):
        return os.getpid()
    def threads(self):
        return threading.active_count()
    def descriptors(self):
        return sorted(map(int, os.listdir("/proc/self/fd")))
    def limits(self):
        return [resource.getrlimit(each) for each in (resource.RLIMIT_DATA, resource.RLIMIT_AS)]
    def take(self, megabytes):
        return len(np.ones(megabytes * 2**17))
    def reserve(self, megabytes):
        self.zeros = np.zeros(megabytes * 2**17)
        return len(self.zeros)
    def use(self):
        self.zeros[:] = 1
'''


@pytest.fixture(autouse=True)
def _all_from_nothing(from_nothing):
    """Workers start here as they start for users."""


@pytest.fixture
def service(processes, tmp_path, monkeypatch, path_with):
    """Environment of a worker that finds the service ``service_for_test:Service``."""
    folder = tmp_path / "services"
    folder.mkdir()
    (folder / "service_for_test.py").write_text(SERVICE)
    monkeypatch.setenv("PYTHONPATH", path_with(folder))
    return "service_for_test:Service"


def gone(pid):
    """Whether a process has ended, even if nothing has read its status yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def wait_until():
    """Waits for a condition, for some seconds at most."""

    def wait(condition, seconds=20):
        end = time.monotonic() + seconds
        while not (met := condition()) and time.monotonic() < end:
            time.sleep(0.01)
        return met

    return wait


@pytest.fixture
def all_gone(wait_until):
    return lambda pids: wait_until(lambda: all(gone(pid) for pid in pids))
