"""Checks of values that come from a database or a file, and canonical JSON.

Records check plain data with these functions. They raise ``KeyError`` if something is missing,
``TypeError`` if something has another structure, and ``ValueError`` if a value is invalid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

KindT = TypeVar("KindT")

SMALLEST, LARGEST = 0.0, 1e15
"""Limits of a value in its quantity's unit; a stored value outside of them is damaged."""

TINIEST = 1e-12
"""Smallest value above 0 in its quantity's unit: division by a smaller value may overflow."""

LARGEST_COUNT = 2**31 - 1
"""Largest whole number that every database holds."""


def canonical_json(options: Mapping[str, Any]) -> str:
    """JSON of a mapping; equal mappings have the same text in any order.

    >>> canonical_json({"b": "2", "a": "1"})
    '{"a":"1","b":"2"}'
    """
    return _CANONICAL.encode(options)


def flat(record: Any) -> dict[str, Any]:
    """Values of a record's fields by name, as they are.

    A store has many records, and ``dataclasses.asdict``, which copies values in depth, takes ten
    times as long.
    """
    names, values = _fields(record.__class__)
    return dict(zip(names, values(record), strict=True))


@cache
def _fields(record: Hashable) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Names of a record's fields, of which it has two or more, and what reads all of them."""
    names = tuple(each.name for each in fields(record))  # type: ignore[arg-type]
    return names, attrgetter(*names)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
"""Encoder that is made once: texts of keys are made for each record."""


def checked(value: Any, kind: type[KindT] | tuple[type[KindT], ...], name: str = "value") -> KindT:
    """The value, after a check of its kind.

    Args:
        value: Value to check.
        kind: Type or types that it may have; a truth value is no ``int``.
        name: Name of the value, for the error.

    Raises:
        TypeError: If the value is of another kind.
    """
    if type(value) is kind:  # nearly always, and twice as fast
        return value
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} is {value!r:.40}")
    return value


def text(value: Any, name: str = "value") -> str:
    """The value, after a check that it is a text that UTF-8 can express.

    Args:
        value: Value to check. Halves of characters represent bytes that are not UTF-8.
        name: Name of the value, for the error.

    Raises:
        TypeError: If it is not a text.
        ValueError: If UTF-8 cannot express it.
    """
    found = value if type(value) is str else checked(value, str, name)
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} is not UTF-8") from error
    return found


def number(value: Any, name: str, least: float = 0.0, most: float = LARGEST) -> float:
    """The value as a float, after a check that it is a number within limits.

    Args:
        value: Value to check.
        name: Name of the value, for the error.
        least: Smallest number allowed.
        most: Largest number allowed.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is outside of the limits.
    """
    if not least <= checked(value, (int, float), name) <= most:
        raise ValueError(f"{name} is {value!r:.40}")
    return float(value)


def number_if_known(value: Any, name: str, most: float = LARGEST) -> float | None:
    """The value as :func:`number` checks it; ``None`` stays ``None``."""
    return None if value is None else number(value, name, most=most)


def moment(value: Any) -> datetime:
    """Time of a text in ISO 8601.

    Raises:
        TypeError: If the value is not a text.
        ValueError: If the text is not a time, has no time zone, or is out of range.
    """
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    try:
        found.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{value} is out of range") from error
    return found
