"""Plugin of pytest that begins workers of conformance suites as forks; see ``nursery.py``."""

import pytest
from nursery import Nurseries

from dlbricks_core.worker import process


@pytest.fixture(scope="session", autouse=True)
def forked_workers():
    """Begins workers as forks of processes that have imported what workers import."""
    started = Nurseries(process._start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_start", started)
        yield
    started.end()
