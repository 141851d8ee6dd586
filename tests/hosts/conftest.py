"""Hosts that a fleet runs on."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def helpers():
    """Finds the modules beside the tests, and those that all tests share."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (Path(__file__).parents[1] / "helpers", Path(__file__).parent):
            patch.syspath_prepend(str(folder))
        yield


@pytest.fixture(scope="session")
def hosts(helpers):
    """The module ``hosts.py``; its tests are skipped where the kernel refuses namespaces."""
    import hosts

    if reason := hosts.refused():
        pytest.skip(f"namespaces are not permitted: {reason}")
    return hosts


@pytest.fixture
def network(hosts, tmp_path):
    with hosts.Network(tmp_path) as found:
        yield found


@pytest.fixture(scope="session")
def whole_bed(hosts, tmp_path_factory):
    """Fleet that all tests of a process share: workers take seconds to start."""
    from bed import Bed
    from postgres_server import PostgresServer

    with hosts.Network(tmp_path_factory.mktemp("fleet")) as network:
        server = PostgresServer(network.host("base"))
        yield Bed(network, server)
        server.remove()


@pytest.fixture
def bed(whole_bed):
    """A fleet of three equal hosts that do nothing."""
    whole_bed.restore()
    return whole_bed
