"""Addresses of schedulers and hosts, as users write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from dlbricks_core.errors import DLBricksError

_HOST = r"(\[[^\]\s]+\]|[^\[\]:/\s]+)"
_ADDRESS = re.compile(rf"(tcp|tls)://{_HOST}:\d{{1,5}}")


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


def host_of(address: str) -> str:
    """Host in a scheduler's address, IPv6 in brackets."""
    return address.partition("://")[2].rpartition(":")[0]


def check_host(host: str) -> None:
    """Checks the form of an address to listen at, which has no port.

    Raises:
        DLBricksError: If nothing can listen at this address.
    """
    if not re.fullmatch(_HOST, host):
        raise DLBricksError(
            f"{host!r} is not the address of a host",
            hint="Write a name or an address without a port, and IPv6 in brackets, such as [::1].",
        )


@contextmanager
def listening(where: str, hint: str) -> Iterator[None]:
    """Turns the error of Dask about an address that cannot be opened into one line.

    Args:
        where: The address, for the message.
        hint: What to do.

    Raises:
        DLBricksError: If the address cannot be opened. Dask's own error only names the part that
            failed to start; its cause has the system's error number and text.
    """
    try:
        yield
    except RuntimeError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno is None:
            raise
        raise DLBricksError(f"{where}: {cause.strerror or cause}", hint=hint) from error
