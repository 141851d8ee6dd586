"""Holds for all tests, the core's and the plugins'."""

import os

# Tests run on as many processes as there are cores: threads of one would spin where another
# computes. A worker that times has the number that it is told, whatever this says.
os.environ.setdefault("OMP_NUM_THREADS", "1")
