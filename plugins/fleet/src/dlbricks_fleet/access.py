"""Access to a fleet: with certificates, within one machine, or without any protection."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from dlbricks_core.errors import DLBricksError
from dlbricks_core.wording import argument
from dlbricks_fleet.address import check_address, check_host, host_of
from dlbricks_fleet.certificates import AUTHORITY, CERTIFICATE, KEY

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Access:
    """How a member of a fleet talks to others.

    Raises:
        DLBricksError: If both are given, or the folder lacks a file.
    """

    #: Folder with the member's key and certificate; ``None`` to talk in plain text.
    certificates: Path | None = None
    insecure: bool = False  #: Whether plain text may leave this machine.

    def __post_init__(self) -> None:
        if self.certificates is None:
            return
        if self.insecure:
            raise DLBricksError(
                f"{argument('certificates')} and {argument('insecure')} exclude each other",
                hint="Certificates encrypt every connection: leave out the other.",
            )
        missing = [
            name
            for name in (AUTHORITY, CERTIFICATE, KEY)
            if not (self.certificates / name).is_file()
        ]
        if missing:
            raise DLBricksError(
                f"{self.certificates} lacks {', '.join(missing)}",
                hint="Make certificates with: dlbricks fleet certificates FOLDER",
            )

    @property
    def protocol(self) -> str:
        """Beginning of the addresses: ``tls`` or ``tcp``."""
        return "tcp" if self.certificates is None else "tls"

    def check_scheduler(self, address: str) -> None:
        """Checks whether a scheduler's address may be called.

        Raises:
            DLBricksError: If it is malformed, or if the connection would not be protected.
        """
        check_address(address)
        if address.startswith("tls://") and self.certificates is None:
            raise DLBricksError(
                f"{address} needs certificates",
                hint=f"Name the folder of this machine's: {argument('certificates')}.",
            )
        if address.startswith("tcp://") and self.certificates is not None:
            raise DLBricksError(
                f"{address} is not encrypted, in spite of {argument('certificates')}",
                hint="Write tls://HOST:PORT.",
            )
        self._check_reach(host_of(address))

    def listening_at(self, host: str, default: str = LOOPBACK) -> str:
        """Address to listen at; empty for all addresses of this machine.

        Args:
            host: Address that the user gave; empty for none.
            default: Address in place of none, where connections are not protected.

        Raises:
            DLBricksError: If it is malformed, or if connections would not be protected.
        """
        if host:
            check_host(host)
        elif self.certificates is None and not self.insecure:
            host = default
        self._check_reach(host)
        return host

    def _check_reach(self, host: str) -> None:
        """Raises an error for an address beyond this machine without protection."""
        if self.certificates is None and not self.insecure and not is_loopback(host):
            raise DLBricksError(
                f"{host or 'this machine'} can be reached from other machines, and no certificates "
                "are given",
                hint="Make them with: dlbricks fleet certificates FOLDER. Where everybody in the "
                f"network may use and feed the fleet, {argument('insecure')} does "
                "without.",
            )


def is_loopback(host: str) -> bool:
    """Whether a host's name or address, IPv6 in brackets, is that of this machine alone."""
    if not host:  # all addresses
        return False
    try:
        found = {each[4][0] for each in socket.getaddrinfo(host.strip("[]"), None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in found)
