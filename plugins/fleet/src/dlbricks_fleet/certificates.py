"""Certificates of a fleet: an authority of its own, and a certificate for each member.

A certificate states the role of its owner and, for a host, its name. So the certificate of a host
opens no other role, and no other host's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from dlbricks_core.errors import DLBricksError, or_room

Role = Literal["scheduler", "host", "client"]

AUTHORITY, CERTIFICATE, KEY = "authority.pem", "certificate.pem", "key.pem"
"""Files in the folder of a member. The authority's own folder lacks the second."""

DOMAIN = "dlbricks-fleet"
"""Domain of the name in a certificate, ``scheduler.dlbricks-fleet``. No machine has that name: it
states the role, wherever the owner of the role runs.
"""

_YEARS = 10
_NAME = re.compile(r"\w[\w.+-]{0,39}", re.ASCII)
"""Name of a host, which is also a name for a machine in a store."""


@dataclass(frozen=True)
class Peer:
    """Other end of a connection, as its certificate states it."""

    role: str  #: Role of the peer.
    name: str  #: Name of the peer; the name of a host distinguishes it from other hosts.


def peer_of(certificate: Mapping[str, Any]) -> Peer:
    """Role and name in a verified certificate, as :meth:`ssl.SSLSocket.getpeercert` returns it."""
    subject = {name: value for part in certificate.get("subject", ()) for name, value in part}
    return Peer(subject.get("organizationalUnitName", ""), subject.get("commonName", ""))


def name_of(role: Role) -> str:
    """Name that a certificate carries for a role."""
    return f"{role}.{DOMAIN}"


def make(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """Makes the certificates that a folder lacks.

    The folder receives an authority, a scheduler, a client, and the named hosts. Present ones stay
    as they are, so hosts can be added later.

    Args:
        folder: Folder of the fleet.
        hosts: Names of hosts.

    Returns:
        Folders that are new, one for each member.

    Raises:
        DLBricksError: If a name is invalid, the folder cannot be written, or its authority is
            damaged.
    """
    for name in hosts:
        if not _NAME.fullmatch(name):
            raise DLBricksError(
                f"{name!r:.60} is not a valid name for a host",
                hint="A name has up to 40 letters, digits, dots, hyphens and underscores.",
            )
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = _Authority.of(folder / "authority")
        return list(_made(authority, folder, hosts))
    except OSError as error:
        raise DLBricksError(
            f"{folder} cannot be written: {error.strerror}",
            hint=or_room(error, "Choose another folder."),
        ) from error


def _made(authority: _Authority, folder: Path, hosts: Iterable[str]) -> Iterator[Path]:
    members: list[tuple[Path, Role, str]] = [
        (folder / "scheduler", "scheduler", "scheduler"),
        (folder / "client", "client", "client"),
        *((folder / "hosts" / name, "host", name) for name in dict.fromkeys(hosts)),
    ]
    for place, role, name in members:
        if not (place / KEY).exists():
            authority.issue(place, role, name)
            yield place


@dataclass(frozen=True)
class _Authority:
    """Authority of a fleet, whose key signs the certificates."""

    key: Any  #: Private key.
    certificate: Any  #: Certificate of the authority.

    @classmethod
    def of(cls, place: Path) -> _Authority:
        """The authority in a folder, which is made if there is none."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if not (place / KEY).exists():
            made = cls._new()
            _write(place, made.key, {AUTHORITY: made.certificate})
            return made
        try:
            return cls(
                load_pem_private_key((place / KEY).read_bytes(), None),
                x509.load_pem_x509_certificate((place / AUTHORITY).read_bytes()),
            )
        except ValueError as error:
            raise DLBricksError(
                f"{place} holds a damaged authority", hint="Choose another folder."
            ) from error

    @classmethod
    def _new(cls) -> _Authority:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = _subject("authority", "authority")
        usage = _usage(signs_certificates=True)
        builder = _builder(name, name, key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(key, _signed(builder.add_extension(usage, critical=True), key))

    def issue(self, place: Path, role: Role, name: str) -> None:
        """Writes a new key and its certificate for a member into a folder."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role == "scheduler":
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        extensions: list[tuple[Any, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage(purposes), False),
            (x509.SubjectAlternativeName([x509.DNSName(name_of(role))]), False),
        ]
        builder = _builder(_subject(role, name), self.certificate.subject, key.public_key())
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        certificate = _signed(builder, self.key)
        _write(place, key, {CERTIFICATE: certificate, AUTHORITY: self.certificate})


def _subject(role: str, name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    texts = {
        NameOID.ORGANIZATION_NAME: DOMAIN,
        NameOID.ORGANIZATIONAL_UNIT_NAME: role,
        NameOID.COMMON_NAME: name,
    }
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in texts.items()])


def _usage(*, signs_certificates: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(subject: Any, issuer: Any, key: Any) -> Any:
    from cryptography import x509

    # A day of tolerance: the clocks of the machines may differ.
    begin = datetime.now(UTC) - timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=365 * _YEARS))
    )


def _signed(builder: Any, key: Any) -> Any:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _write(place: Path, key: Any, certificates: Mapping[str, Any]) -> None:
    """Writes certificates and, last, the key: a folder with a key is complete."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, certificate in certificates.items():
        (place / name).write_bytes(certificate.public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    new = place / f".{KEY}.part"
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_bytes(secret)
    new.replace(place / KEY)
