"""Messages over a socket, each whole and within a time limit, or an error."""

from __future__ import annotations

import pickle
import socket
import struct
from time import monotonic
from typing import Any

_LENGTH = struct.Struct("!Q")
_CHUNK = 1 << 20
_LONGEST = 1 << 36
"""Maximum bytes of a message. A longer message is garbage."""

_MOST_WAIT_S = 1e9
"""Maximum seconds of a wait. Sockets overflow beyond 292 years."""


class GarbledError(Exception):
    """The bytes that arrived are not a message."""


class Channel:
    """One end of a connection for pickled messages.

    Both ends trust each other: they are two processes of one program.

    Args:
        end: A connected stream socket.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Sends a message.

        Args:
            message: The message. If it cannot be pickled, nothing is sent.
            deadline: Time on the monotonic clock, in seconds; ``None`` waits for ever.

        Raises:
            TimeoutError: If the other end has not taken the message by then.
            OSError: If the other end is gone.
        """
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._wait_until(deadline)
        self._end.sendall(_LENGTH.pack(len(content)))
        self._wait_until(deadline)
        self._end.sendall(content)

    def receive(self, deadline: float | None = None) -> Any:
        """Waits for the next message and returns it.

        Args:
            deadline: Time on the monotonic clock, in seconds; ``None`` waits for ever.

        Raises:
            TimeoutError: If the whole message is not there by then.
            EOFError: If the other end is closed.
            OSError: If the other end is gone.
            GarbledError: If the received bytes are not a message.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        if length > _LONGEST:
            raise GarbledError(f"{length} bytes")
        content = self._exactly(length, deadline)
        try:
            return pickle.loads(content)
        except Exception as error:  # unpickling may raise any exception of the objects
            raise GarbledError(f"{type(error).__name__}: {error}") from error

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        """Receives a number of bytes; memory is taken only as they arrive."""
        content = bytearray()
        while len(content) < size:
            self._wait_until(deadline)
            part = self._end.recv(min(size - len(content), _CHUNK))
            if not part:
                raise EOFError
            content += part
        return content

    def _wait_until(self, deadline: float | None) -> None:
        if deadline is None:
            self._end.settimeout(None)
            return
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self._end.settimeout(min(left, _MOST_WAIT_S))

    def shut(self) -> None:
        """Shuts both directions; threads that wait at either end wake up."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end has shut it, or it is closed

    def close(self) -> None:
        """Frees this end. No thread may be waiting at it."""
        self._end.close()
