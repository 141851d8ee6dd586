"""Hosts on one machine, and a fleet on them."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def helpers(processes):
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
def whole_network(hosts, tmp_path_factory):
    """Network that all tests of a fleet share."""
    with hosts.Network(tmp_path_factory.mktemp("fleet")) as found:
        yield found


@pytest.fixture(scope="session")
def whole_bed(whole_network):
    """Fleet that all tests of a process share: workers take seconds to start."""
    from bed import Bed
    from postgres_server import PostgresServer

    server = PostgresServer(whole_network.host("base"))
    yield Bed(whole_network, server)
    server.remove()


@pytest.fixture
def bed(whole_bed):
    """A fleet of three equal hosts that do nothing."""
    whole_bed.restore()
    return whole_bed
