"""What composers are told beside bricks."""

import pytest

from dlbricks_core.facts import Setup
from dlbricks_core.machine.system import current_system


@pytest.fixture(scope="session")
def place():
    """A setup and a system, as composers take them."""
    return Setup("backend", "1", "{}", 1, "interleaved", "0.1.0"), current_system()


@pytest.fixture(scope="session")
def planned(place):
    """The plan of a composer for bricks."""
    return lambda composer, bricks: composer.plan(bricks, *place)
