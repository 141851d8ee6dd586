"""Holds for all tests, the core's and the plugins'."""

import atexit
import gc
import os
import signal
import tempfile

from hypothesis import settings

# Models that tests import are kept for this run alone, whatever the user imported before.
_cache = tempfile.TemporaryDirectory(prefix="dlbricks-tests-")
os.environ["XDG_CACHE_HOME"] = _cache.name

# Tests run on as many processes as there are cores: threads of one would spin where another
# computes. A worker that times has the number that it is told, whatever this says.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts a job in the background with interrupts ignored, and commands inherit that. Tests
# interrupt commands.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Commands start workers by the hundred: each module is compiled once, and not by each of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A test fails for what it finds, and not because the machine is busy.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# Tests run side by side: none waits until another has timed what nobody reads.
os.environ.setdefault("DLBRICKS_TURNS", "")

#: New objects after which garbage is looked for, in place of 700: what tests make is small.
FEW_OBJECTS = 50_000

# Imports and the making of thousands of tests leave little garbage: none is looked for meanwhile,
# nor in what they leave, and not at the end either.
gc.disable()
atexit.register(gc.freeze)


def pytest_collection_finish():
    """Leaves all that was imported out of later collections of garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(FEW_OBJECTS)
    gc.enable()
