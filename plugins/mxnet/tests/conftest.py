"""MXNet reads its environment once: it is set before any test imports it."""

import os

from dlbricks_mxnet.backend import MxnetBackend

from dlbricks_core.backends import BackendSettings

os.environ.update(MxnetBackend().environment(BackendSettings(threads=1)))
