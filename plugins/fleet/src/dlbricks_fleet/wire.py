"""Connections of a fleet: Dask's, but with plain data only, and with a time limit to begin.

Dask unpickles received messages, and a pickle runs code of its sender. Its own limits of what
may be unpickled miss some messages. A connection of a fleet carries MessagePack: numbers, texts,
bytes, lists and mappings of them, and nothing else. The classes here take the place of Dask's for
the addresses ``tcp://`` and ``tls://`` in this process.

Both ends of a connection begin with ``PREFACE``. Each end therefore recognizes and names a program
that is not part of a fleet.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Iterator
from typing import Any

import msgpack
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.comm.registry import backends
from distributed.comm.tcp import (
    TCP,
    TLS,
    TCPBackend,
    TCPConnector,
    TCPListener,
    TLSBackend,
    TLSConnector,
    TLSListener,
    convert_stream_closed_error,
    read_bytes_rw,
)
from distributed.security import Security
from tornado.iostream import StreamClosedError

from dlbricks_core.errors import DLBricksError
from dlbricks_fleet.access import Access
from dlbricks_fleet.certificates import AUTHORITY, CERTIFICATE, KEY, Peer, name_of, peer_of
from dlbricks_fleet.plain import packed, unpacked

PREFACE = b"FLEET * HTTP/1.1\r\n\r\n"
"""First bytes of each direction. A server of HTTP takes them for a request, and answers at once."""

LIMIT_S = 3.0
"""Maximum seconds until the other end has begun."""

_SIZE = struct.Struct("!Q")
_LARGEST = 2**36
"""Largest message in bytes: more than a suite has."""

_PIECE = 2**26
"""Bytes that are read at once."""

_CHUNK = 2**30
"""Bytes that are written at once: OpenSSL accepts less than 2 GiB."""


def _size_in(header: bytes) -> int:
    """Bytes of the message that follows.

    Raises:
        ValueError: If no member of a fleet sends so long a message.
    """
    (size,) = _SIZE.unpack(header)
    if size > _LARGEST:
        raise ValueError(f"a message of {size} bytes")
    return int(size)


_ERROR = "exception_text"
"""Field of Dask's messages about an error that contains it in words."""

_UNPICKLED = ("exception", "traceback")
"""Fields of Dask's messages about an error that Dask unpickles."""


class StrangerError(FatalCommClosedError):  # type: ignore[misc, unused-ignore]
    """The other end is no member of this fleet."""


class SilentError(FatalCommClosedError):  # type: ignore[misc, unused-ignore]
    """The other end accepts the connection and sends nothing, as a beginning scheduler does."""


class PeerError(CommClosedError):  # type: ignore[misc, unused-ignore]
    """The other end reports a defect, in words."""


def _spoken(message: Any) -> Any:
    """A message to send. The reply to a call that failed has words in place of the exception."""
    if isinstance(message, dict) and _ERROR in message:
        return {name: message[name] for name in ("status", _ERROR)}
    return message


def _harmless(message: Any) -> Any:
    """A message that Dask does not unpickle anything of, as it does of one about an error.

    Raises:
        ValueError: If no member of a fleet sends it: an error without words, or with an exception;
            a batch that contains something else than calls.
    """
    batch = isinstance(message, tuple)
    for each in message if batch else (message,):
        if batch and not (isinstance(each, dict) and isinstance(each.get("op"), str)):
            raise ValueError("a batch of something else than calls")
        if isinstance(each, dict) and not each.keys().isdisjoint(_UNPICKLED):
            raise ValueError("an error that is not in words")
        if isinstance(each, dict) and "error" in str(each.get("status")) and _ERROR not in each:
            raise ValueError("an error without words")
    return message


class _Plain(TCP):  # type: ignore[misc, unused-ignore]
    """Connection that carries plain data."""

    _met = False
    _has_read = False

    async def read(self, deserializers: Any = None) -> Any:
        """Next message.

        Raises:
            PeerError: If the message is about an error of the other end.
            SilentError: If the other end does not begin in time, or stops before its first message.
            StrangerError: If the other end begins as no member of a fleet does.
        """
        if not self._met:
            await self._meet()
        stream = self.stream
        if stream is None:
            raise CommClosedError
        try:
            # Dask waits for the first message without end.
            limit = None if self._has_read else LIMIT_S
            message = _harmless(unpacked(await asyncio.wait_for(_next(stream), limit)))
            self._has_read = True
        except TimeoutError as error:
            self.abort()
            raise SilentError(_STOPS) from error
        except (StreamClosedError, ssl.SSLError) as error:
            self._lose(error)
        except (ValueError, msgpack.UnpackException) as error:
            self.abort()
            if not self._has_read:
                raise StrangerError(_BABBLES) from error
            raise CommClosedError(
                f"{self.peer_address} sent bytes that are not a message"
            ) from error
        except BaseException:
            self.abort()  # part of a message may be read: the next one cannot be found
            raise
        if isinstance(message, dict) and _ERROR in message:
            raise PeerError(str(message[_ERROR]))
        return message

    async def write(self, msg: Any, serializers: Any = None, on_error: Any = None) -> int:
        """Sends a message, and returns the number of its bytes."""
        stream = self.stream
        if stream is None:
            raise CommClosedError
        body = packed(_spoken(msg))
        if not self._met:
            await self._meet()
        try:
            stream.write(_SIZE.pack(len(body)))
            for begin in range(0, len(body), _CHUNK):
                stream.write(memoryview(body)[begin : begin + _CHUNK])
        except StreamClosedError as error:
            self._lose(error)
        return len(body)

    async def _meet(self) -> None:
        """Begins, and reads how the other end begins.

        Nothing follows before that: a server that closes what it does not understand would take
        its words along.
        """
        stream = self.stream
        if stream is None:
            raise CommClosedError
        try:
            stream.write(PREFACE)
            begin = await asyncio.wait_for(_begin(stream), LIMIT_S)
        except TimeoutError as error:
            self.abort()
            raise SilentError(_SILENT) from error
        except (StreamClosedError, ssl.SSLError) as error:
            self.abort()
            raise _met_with(error) from error
        except BaseException:
            self.abort()
            raise
        if begin != PREFACE:
            self.abort()
            raise StrangerError(_words_of(begin))
        self._met = True

    def _lose(self, error: Exception) -> None:
        self.stream = None
        self._closed = True
        convert_stream_closed_error(self, error)

    @property
    def peer(self) -> Peer | None:
        """Other end as its certificate states it; ``None`` without certificates."""
        return None


_SILENT = f"something accepts the connection and sends nothing for {LIMIT_S:g} s"
_STOPS = f"something begins as a scheduler does, and sends no message within {LIMIT_S:g} s"
_BABBLES = "something begins as a scheduler does, and sends bytes that are no message"
_CLOSES = "something accepts the connection and closes it at once"
_NO_TLS = "something answers there, but without TLS"
_REFUSES = "the other end refuses the certificate of this machine"


async def _next(stream: Any) -> bytearray | memoryview:
    """Bytes of the next message. They take no memory before they have come.

    Raises:
        ValueError: If no member of a fleet sends so long a message.
    """
    size = _size_in(await stream.read_bytes(_SIZE.size))
    if size <= _PIECE:
        return await read_bytes_rw(stream, size)  # type: ignore[no-any-return, unused-ignore]
    found = bytearray()
    while len(found) < size:
        found += await read_bytes_rw(stream, min(_PIECE, size - len(found)))
    return found


async def _begin(stream: Any) -> bytes:
    """First bytes of the other end: as many as the preface has, or the first that differ."""
    begin = b""
    while len(begin) < len(PREFACE) and PREFACE.startswith(begin):
        begin += await stream.read_bytes(len(PREFACE) - len(begin), partial=True)
    return begin


def _words_of(begin: bytes) -> str:
    if begin.startswith((b"HTTP/", b"<!DOC", b"<html")):
        return "an HTTP server answers there, and no member of a fleet"
    text = begin[:12].decode("ascii", "replace")
    seen = repr(text) if text.isprintable() and text.isascii() else begin[:12].hex(" ")
    return f"something else answers there, and begins with {seen}"


class _PlainTLS(_Plain, TLS):  # type: ignore[misc, unused-ignore]
    """Encrypted connection, both ends of which have shown certificates."""

    @property
    def peer(self) -> Peer | None:
        return peer_of(self.extra_info["peercert"] or {})


class _Connector(TCPConnector):  # type: ignore[misc, unused-ignore]
    comm_class = _Plain

    async def connect(self, address: str, deserialize: bool = True, **arguments: Any) -> Any:
        """A connection that the other end has not closed yet."""
        try:
            return await super().connect(address, deserialize, **arguments)
        except OSError as error:
            if _is_closed(error):  # Dask would try again, and forget why
                raise SilentError(_CLOSES) from error
            raise


class _TLSConnector(TLSConnector):  # type: ignore[misc, unused-ignore]
    comm_class = _PlainTLS

    async def connect(self, address: str, deserialize: bool = True, **arguments: Any) -> Any:
        """A connection, with a limit for the exchange of certificates."""
        try:
            return await asyncio.wait_for(
                super().connect(address, deserialize, **arguments), LIMIT_S
            )
        except TimeoutError as error:
            raise SilentError(_SILENT) from error
        except ValueError as error:  # Tornado: it has spoken, or closed, before TLS began
            raise SilentError(_NO_TLS) from error
        except OSError as error:
            if _is_closed(error) or any(isinstance(each, ssl.SSLError) for each in _causes(error)):
                raise _met_with(error) from error
            raise


def _met_with(error: BaseException) -> StrangerError | SilentError:
    """Conclusion about the other end from an error at the beginning of a connection."""
    for each in _causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return StrangerError(
                f"the other end has no certificate as the scheduler ({each.verify_message})"
            )
        if isinstance(each, ssl.SSLError) and "EOF" not in (each.reason or ""):
            return StrangerError(_REFUSES if "ALERT" in (each.reason or "") else _NO_TLS)
    return SilentError(_CLOSES)


def _is_closed(error: OSError) -> bool:
    """Whether the other end accepted a connection, and closed it before it was used.

    Dask raises ``CommClosedError`` without a word for a connection that is already closed.
    """
    if isinstance(error, CommClosedError) and not error.args:
        return True
    return any(isinstance(each, ConnectionResetError) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that led to it."""
    while error is not None:
        yield error
        error = getattr(error, "real_error", None) or error.__cause__ or error.__context__


def found_at_other_end(error: BaseException) -> CommClosedError | None:
    """Error about what is found at an address, among those that led to another one."""
    kinds = (StrangerError, SilentError, PeerError)
    return next((each for each in _causes(error) if isinstance(each, kinds)), None)


def stranger(address: str, found: Exception) -> DLBricksError:
    """Error about an address at which something else than the own scheduler answers."""
    if isinstance(found, PeerError):
        return DLBricksError(
            f"the scheduler at {address} refuses: {found}",
            hint="Use the certificates that were made for this member.",
        )
    return DLBricksError(
        f"the scheduler of this fleet is not at {address}: {found}",
        hint="Check the address, and that both ends have certificates of one fleet.",
    )


class _Listener(TCPListener):  # type: ignore[misc, unused-ignore]
    comm_class = _Plain


class _TLSListener(TLSListener):  # type: ignore[misc, unused-ignore]
    comm_class = _PlainTLS


class _Backend(TCPBackend):  # type: ignore[misc, unused-ignore]
    _connector_class = _Connector
    _listener_class = _Listener


class _TLSBackend(TLSBackend):  # type: ignore[misc, unused-ignore]
    _connector_class = _TLSConnector
    _listener_class = _TLSListener


class FleetSecurity(Security):  # type: ignore[misc, unused-ignore]
    """Certificates of a member, which calls nobody but the scheduler of its fleet."""

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """Arguments of a connection. The other end has to be certified as the scheduler."""
        arguments: dict[str, Any] = super().get_connection_args(role)
        if context := arguments["ssl_context"]:
            context.check_hostname = True
            arguments["server_hostname"] = name_of("scheduler")
        return arguments


def security_of(access: Access) -> FleetSecurity:
    """Dask's description of an access."""
    folder = access.certificates
    if folder is None:
        return FleetSecurity(require_encryption=False)
    files = {"cert": str(folder / CERTIFICATE), "key": str(folder / KEY)}
    roles = {
        f"tls_{role}_{name}": path
        for role in ("client", "scheduler", "worker")
        for name, path in files.items()
    }
    return FleetSecurity(require_encryption=True, tls_ca_file=str(folder / AUTHORITY), **roles)


# At the import of this module, which each member of a fleet needs to connect: no connection of its
# process is ever one of those that unpickle.
backends.update(tcp=_Backend(), tls=_TLSBackend())
