"""Hosts that a fleet runs on."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def hosts():
    """The module ``hosts.py``; its tests are skipped where the kernel refuses namespaces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        import hosts
    if reason := hosts.refused():
        pytest.skip(f"namespaces are not permitted: {reason}")
    return hosts


@pytest.fixture
def network(hosts, tmp_path):
    with hosts.Network(tmp_path) as found:
        yield found
