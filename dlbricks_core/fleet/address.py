"""Addresses of schedulers, as users write them."""

from __future__ import annotations

import re

from dlbricks_core.errors import DLBricksError

_ADDRESS = re.compile(r"(tcp|tls)://(\[[^\]\s]+\]|[^\[\]:/\s]+):\d{1,5}")


def check_address(address: str) -> None:
    """Checks that an address may be that of a scheduler. Dask is not asked: it would wait.

    Raises:
        DLBricksError: If it cannot be one.
    """
    if not _ADDRESS.fullmatch(address):
        raise DLBricksError(
            f"{address!r} is no address of a scheduler",
            hint="Write tcp://HOST:PORT, or tls://HOST:PORT.",
        )
