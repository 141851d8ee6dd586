"""Checks of values that were read from a database or a file, and the one text of a mapping."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

KindT = TypeVar("KindT")

SMALLEST, LARGEST = 1e-9, 1e15
"""Limits of a value in its quantity's unit. A stored value outside of them is damage."""


def canonical_json(options: Mapping[str, Any]) -> str:
    """The one text that equal options have, whatever their order.

    >>> canonical_json({"b": "2", "a": "1"})
    '{"a":"1","b":"2"}'
    """
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


def checked(value: Any, kind: type[KindT] | tuple[type[KindT], ...], name: str = "value") -> KindT:
    """The value, if it is of that kind.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r:.40}")
    return value


def number(value: Any, name: str, least: float = 0.0, most: float = LARGEST) -> float:
    """The value, if it is a number within the limits.

    Raises:
        TypeError: If it is no number.
        ValueError: If it lies outside of the limits.
    """
    if not least <= checked(value, (int, float), name) <= most:
        raise ValueError(f"{name} is {value!r:.40}")
    return float(value)


def number_if_known(value: Any, name: str) -> float | None:
    """The value as :func:`number` checks it; ``None`` stays ``None``."""
    return None if value is None else number(value, name)


def moment(value: Any) -> datetime:
    """The time that a text in ISO 8601 tells.

    Raises:
        TypeError: If it is no text.
        ValueError: If it tells no time, or one without a time zone.
    """
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return found
