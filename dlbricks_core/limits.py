"""Limits on what small files from elsewhere expand to; ``docs/reference/limits.md`` lists them.

Each limit is far above the sizes that DLBricks writes. An environment variable raises each limit.
Limits of models are in :mod:`dlbricks_core.ir.limits`.
"""

from __future__ import annotations

import json
import os
import tomllib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dlbricks_core.errors import DLBricksError

_MIB = 2**20

_SMALL = 2**16
"""Length up to which a JSON text is too short to do harm; values are counted in longer ones."""


_MOST_PAIRS_OF_PARTS = 10**7
"""Pairs of parts of the keys in a TOML text: those of one key of some 3,000 parts."""

_MOST_BITS = 64
"""Bits of an integer in a TOML text, as TOML itself defines."""


@dataclass(frozen=True)
class Limit:
    """Maximum number of something that a file may lead to."""

    variable: str  #: Name of the environment variable that raises the limit.
    usual: int  #: The maximum where the variable is not set.
    unit: str  #: Unit of the number, as a plural noun.

    @property
    def most(self) -> int:
        """The maximum that holds in this process.

        Raises:
            DLBricksError: If the variable is not a positive integer.
        """
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.usual
        if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
            raise DLBricksError(
                f"the environment variable {self.variable} is {text!r:.40}, not a positive integer",
                hint=f"Give it a number of {self.unit}; usual are {self.usual}.",
            )
        return int(text)

    @property
    def words(self) -> str:
        """The limit in words: ``more than 64 MiB, the limit DLBRICKS_MOST_UNPACKED_MIB``."""
        return f"more than {self.most:,} {self.unit}, the limit {self.variable}"

    @property
    def hint(self) -> str:
        """Hint for a user who trusts the file."""
        return f"If you trust its origin, set the environment variable {self.variable} higher."


class LimitError(ValueError):
    """Content of a file that expands beyond a limit.

    Args:
        limit: The limit.
    """

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit.words)
        self.limit = limit


EXPORTED = Limit("DLBRICKS_MOST_EXPORTED_MIB", 4096, "MiB")
"""Text of one exported file, after it is decompressed."""

JSON_TEXT = Limit("DLBRICKS_MOST_JSON_MIB", 128, "MiB")
"""Text of one line of an exported file, or of a whole file of version 1 or 2."""

JSON_VALUES = Limit("DLBRICKS_MOST_JSON_VALUES", 2**24, "values")
"""Values in one JSON text. Each takes up to 100 bytes of memory, and as few as 3 in the text."""

CONTRIBUTION = Limit("DLBRICKS_MOST_CONTRIBUTION_MIB", 1024, "MiB")
"""Arrays of one contribution to the atlas, after they are decompressed."""

UNPACKED = Limit("DLBRICKS_MOST_UNPACKED_MIB", 64, "MiB")
"""Bytes that one compressed field of a store unpacks to."""

STORE = Limit("DLBRICKS_MOST_STORE_MIB", 8192, "MiB")
"""Bytes of a store's file, which is copied to memory to be read, and of all that one reading
unpacks."""

DRAWN = Limit("DLBRICKS_MOST_DRAWN", 50_000, "boxes, lines and bends")
"""Boxes of one drawing, lines between them, and bends: one in each row that a line passes."""

FILES = Limit("DLBRICKS_MOST_FILES", 20_000, "files")
"""Files that one command writes: bricks of a suite, pages of a site."""

ESTIMATES = Limit("DLBRICKS_MOST_ESTIMATES", 2000, "estimates")
"""Models that the pages of a store compose, and as many that they predict; others get no value."""

OWN_MEMORY = Limit("DLBRICKS_MOST_MEMORY_MIB", 16_384, "MiB")
"""Memory of a command itself, until it measures; never more than 90% of the free memory."""

OWN_TIME = Limit("DLBRICKS_MOST_SECONDS", 3600, "seconds")
"""Time that a command itself computes, over all threads, until it measures."""

LIMITS = (
    EXPORTED, JSON_TEXT, CONTRIBUTION, JSON_VALUES, UNPACKED, STORE, DRAWN, FILES, ESTIMATES,
    OWN_MEMORY, OWN_TIME,
)  # fmt: skip


def packed(data: bytes) -> bytes:
    """A field as :func:`unpacked` reads it.

    Raises:
        DLBricksError: If it has more than :data:`UNPACKED`.
    """
    if len(data) > UNPACKED.most * _MIB:
        raise DLBricksError(f"a field of a store would have {UNPACKED.words}", UNPACKED.hint)
    return zlib.compress(data)


def unpacked(data: bytes, left: int | None = None) -> bytes:
    """Content of a field that zlib compressed.

    Args:
        data: The compressed field.
        left: Number of bytes that may still be unpacked; ``None`` for the limit of one field.

    Raises:
        LimitError: If it unpacks to more than :data:`UNPACKED`, or than the number that is left of
            :data:`STORE`.
        zlib.error: If it is damaged.
    """
    most = UNPACKED.most * _MIB
    decompressor = zlib.decompressobj()
    found = decompressor.decompress(data, min(most, most if left is None else max(left, 0)) + 1)
    if len(found) > most:
        raise LimitError(UNPACKED)
    if left is not None and len(found) > left:
        raise LimitError(STORE)
    if not decompressor.eof:
        raise zlib.error("incomplete or truncated")
    return found


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        LimitError: If the text has more than :data:`JSON_VALUES` values.
        ValueError: If it is not JSON.
        RecursionError: If it is nested too deeply.
    """
    check_values(text)
    return json.loads(text)


def parsed_toml(text: str) -> dict[str, Any]:
    """The value of a TOML text.

    Raises:
        ValueError: If it is not TOML, or has integers of more than 64 bits, or keys of very many
            parts, each of which takes the time and the memory of all parts before it.
        RecursionError: If it is nested too deeply.
    """
    if sum(line.count(".") ** 2 for line in text.splitlines()) > _MOST_PAIRS_OF_PARTS:
        raise ValueError("it has keys of too many parts")
    found = tomllib.loads(text)
    left: list[Any] = [found]
    while left:
        value = left.pop()
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            # Written with base 16, it may be so long that Python refuses to print it.
            raise ValueError(f"it has an integer of {value.bit_length():,} bits")
        left += value.values() if isinstance(value, dict) else ()
        left += value if isinstance(value, list) else ()
    return found


def check_values(text: str | bytes) -> None:
    """Refuses JSON that would take too much memory.

    Raises:
        LimitError: If the text has more than :data:`JSON_VALUES` values.
    """
    # Texts may contain these characters, too: the number is an upper bound.
    signs: Iterable[Any] = ",[{:" if isinstance(text, str) else (b",", b"[", b"{", b":")
    if len(text) > _SMALL and sum(map(text.count, signs)) >= JSON_VALUES.most:
        raise LimitError(JSON_VALUES)
