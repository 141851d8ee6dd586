"""Addresses of schedulers are looked at before anybody waits for an answer."""

from __future__ import annotations

import pytest

from dlbricks_core.errors import DLBricksError
from dlbricks_core.fleet.address import check_address


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
