"""Damaged rows of a store: counted by table, and the first of them named."""

from __future__ import annotations

import reprlib
from collections import Counter
from dataclasses import dataclass, field

_NAMED = 3
"""Damaged rows that are named of each table, and in a warning; the others are counted."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


@dataclass
class Damage:
    """Damaged rows of a store.

    Attributes:
        counts: Number of damaged rows by table.
        named: The first damaged rows of each table, each with the reason.
    """

    counts: Counter[str] = field(default_factory=Counter)
    named: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, table: str, key: object, reason: str) -> None:
        """Notes a row.

        Args:
            table: Name of its table.
            key: Key of the row, which may be of any type.
            reason: Reason why it cannot be read.
        """
        self.lose(table, f"row {_spelled(key)} of {table}", reason)

    def lose(self, table: str, rows: str, reason: str, count: int = 1) -> None:
        """Notes several rows, or an unknown number of rows as one.

        Args:
            table: Name of their table.
            rows: The rows in words.
            reason: Reason why they cannot be read.
            count: Number of the rows.
        """
        named = self.named.setdefault(table, {})
        if rows not in named:
            self.counts[table] += count
            if len(named) < _NAMED:
                named[rows] = reason

    @property
    def words(self) -> str:
        """The damage in a line: the first rows with their reasons, and the number of others."""
        every = [f"{row} ({why})" for rows in self.named.values() for row, why in rows.items()]
        more = self.counts.total() - len(every[:_NAMED])
        return "; ".join(every[:_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _spelled(key: object) -> str:
    """A key in one line of bounded length."""
    return key if isinstance(key, str) and len(key) <= _short.maxstring else _short.repr(key)
