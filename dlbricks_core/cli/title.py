"""The command line of this process, as every user of the machine may read it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from dlbricks_core.sanitize import without_secrets

_BEGIN, _END = 45, 46
"""Places of the command line's first byte and end in ``/proc/self/stat``, after the name."""


def hide_secrets() -> None:
    """Overwrites passwords of database URLs in what ``ps`` shows of this process.

    Only Linux has this; elsewhere nothing changes.
    """
    if all(without_secrets(each) == each for each in sys.argv):
        return
    with suppress(OSError):
        numbers = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        begin, end = int(numbers[_BEGIN]), int(numbers[_END])
        with Path("/proc/self/mem").open("r+b", 0) as memory:
            memory.seek(begin)
            words = memory.read(end - begin).split(b"\0")
            memory.seek(begin)
            memory.write(b"\0".join(map(_hidden, words)))


def _hidden(word: bytes) -> bytes:
    """A word of a command line without its passwords, of the same length."""
    text = os.fsdecode(word)
    shown = without_secrets(text)
    return word if shown == text else os.fsencode(shown)[: len(word)].ljust(len(word))
