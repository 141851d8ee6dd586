"""Addresses of schedulers, as users write them."""

from __future__ import annotations

import re

from dlbricks_core.errors import DLBricksError

_ADDRESS = re.compile(r"(tcp|tls)://(\[[^\]\s]+\]|[^\[\]:/\s]+):\d{1,5}")


def check_address(address: str) -> None:
    """Checks the form of a scheduler's address, without connecting to it: Dask would wait.

    Raises:
        DLBricksError: If no scheduler can have this address.
    """
    if not _ADDRESS.fullmatch(address):
        raise DLBricksError(
            f"{address!r} is not the address of a scheduler",
            hint="Write tcp://HOST:PORT, or tls://HOST:PORT.",
        )
