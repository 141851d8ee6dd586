"""The standard streams. Any of them may be closed, full, or without a reader."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

_STDIN, _STDOUT, _STDERR = 0, 1, 2
#: Modes for reopening closed streams, so that no other file gets their numbers. Writing to standard
#: output still fails, as it should; invisible errors are dropped.
_MODES = {_STDIN: os.O_RDONLY, _STDOUT: os.O_RDONLY, _STDERR: os.O_WRONLY}


class Stream:
    """A stream that keeps its first failure and ignores whatever is written after it.

    Args:
        stream: Stream that is written to.

    Attributes:
        failure: Reason why the stream could not be written; ``None`` if it could.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str | bytes) -> int:
        """Writes a text, or bytes, unless writing has failed before."""
        if self.failure is None:
            try:
                if isinstance(text, str):
                    self._stream.write(text)
                else:
                    self._stream.buffer.write(text)
            except OSError as error:
                self._fail(error)
        return len(text)

    @property
    def buffer(self) -> Stream:
        """Stream for bytes: this stream as well, so that a failure is kept."""
        return self

    def flush(self) -> None:
        """Flushes the stream, unless writing has failed before."""
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = error
        # The content of the buffer must go somewhere when the interpreter ends.
        with suppress(OSError), Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def standard_streams() -> Iterator[Stream]:
    """Replaces standard output and error by safe streams, and yields that of standard output."""
    for number, mode in _MODES.items():
        _open(number, mode)
    before = sys.stdout, sys.stderr
    stdout = Stream(_prepared(sys.stdout, _STDOUT))
    stderr = Stream(_prepared(sys.stderr, _STDERR))
    sys.stdout, sys.stderr = stdout, stderr
    try:
        yield stdout
    finally:
        stdout.flush()
        stderr.flush()
        sys.stdout, sys.stderr = before


def _open(number: int, mode: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
    else:
        # Writing waits for a full pipe, whatever mode its reader has set.
        with suppress(OSError):
            os.set_blocking(number, True)


def _prepared(stream: TextIO | None, number: int) -> TextIO:
    """The stream, prepared to write any text in its encoding."""
    if stream is None:
        return open(number, "w", errors="backslashreplace", closefd=False)
    with suppress(AttributeError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    return stream
