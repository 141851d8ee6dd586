"""Addresses are looked at before anybody waits for an answer, and told where nobody can listen."""

from __future__ import annotations

import pytest
from dlbricks_fleet.address import check_address, check_host

from dlbricks_core.errors import DLBricksError


@pytest.mark.parametrize(
    "address", ["tcp://boss:8786", "tls://10.0.0.1:1", "tcp://[fe80::1]:65535", "tcp://a.b-c.d:80"]
)
def test_addresses_of_schedulers_are_taken(address):
    check_address(address)


@pytest.mark.parametrize(
    "address", ["boss", "tcp://boss", "boss:8786", "http://x:1", "tcp://:1", "tcp://a b:1", ""]
)
def test_what_is_no_address_is_refused_in_one_line(address):
    with pytest.raises(DLBricksError, match="is not the address of a scheduler"):
        check_address(address)


@pytest.mark.parametrize("host", ["boss", "10.0.0.1", "[fe80::1]"])
def test_addresses_of_hosts_are_taken(host):
    check_host(host)


@pytest.mark.parametrize("host", ["boss:80", "fe80::1", "tcp://boss", "a b", ""])
def test_what_is_no_host_is_refused_in_one_line(host):
    with pytest.raises(DLBricksError, match="is not the address of a host"):
        check_host(host)


def test_a_port_that_is_taken_is_one_line_of_a_second_scheduler(start, scheduler):
    port = scheduler.rpartition(":")[2]
    status, _, err = start("scheduler", "--host", "127.0.0.1", "--port", port).done()
    assert status == 2
    assert f"Error: 127.0.0.1, port {port}: Address already in use" in err


@pytest.mark.parametrize("command", [("scheduler", "--port", "0"), ("worker",)], ids=" ".join)
def test_an_address_that_a_machine_does_not_have_is_one_line(start, scheduler, command):
    joins = ("--scheduler", scheduler) if command == ("worker",) else ()
    status, _, err = start(*command, *joins, "--insecure", "--host", "192.0.2.1").done()
    assert status == 2
    assert "Error: 192.0.2.1" in err
    assert "Cannot assign requested address" in err
