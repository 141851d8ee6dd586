"""Types of option values: numbers with a unit, and lists of numbers."""

from __future__ import annotations

import math
import string
from collections.abc import Callable

import click

POSITIVE = click.IntRange(min=1)


def _quantity(
    name: str, units: dict[str, float], examples: str, least: float = -math.inf
) -> Callable[[str], float]:
    """Type of an option that takes a finite number and a unit.

    Args:
        name: Meaning of the number, for error messages.
        units: Factor of each unit; the empty unit stands for a number alone.
        examples: Examples for error messages.
        least: Least value in the unit whose factor is 1.
    """

    def read(text: str) -> float:
        number = text.rstrip("%" + string.ascii_letters)
        try:
            value = float(number) * units[text[len(number) :]]
        except (KeyError, ValueError):
            value = math.nan
        if not least <= value < math.inf:
            raise click.BadParameter(f"{text!r} is not a {name}: write {examples}")
        return value

    return read


_ABOVE_ZERO = math.ulp(0.0)


SHARE = _quantity("share", {"%": 0.01, "": 1.0}, "1% or 0.01")
LATENCY_MS = _quantity(
    "latency", {"": 1.0, "us": 1e-3, "ms": 1.0, "s": 1e3}, "50ms or 0.5s", _ABOVE_ZERO
)
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
TIME = _quantity("time", _SECONDS, "60s or 5m", 0.0)
DURATION = _quantity("duration", _SECONDS, "60s or 5m", _ABOVE_ZERO)


def _numbers(name: str, most: int, examples: str) -> Callable[[str], tuple[int, ...]]:
    """Type of an option that takes a list such as ``1-3,5``, which is 1, 2, 3 and 5.

    Args:
        name: Meaning of the numbers, for error messages.
        most: Maximum length of a range.
        examples: Examples for error messages.
    """

    def read(text: str) -> tuple[int, ...]:
        found: set[int] = set()
        for part in text.split(","):
            low, dash, high = part.partition("-")
            try:
                first, last = int(low), int(high if dash else low)
            except ValueError as error:
                raise click.BadParameter(
                    f"{text!r} is not a list of {name}: write {examples}"
                ) from error
            if not 1 <= first <= last:
                raise click.BadParameter(f"{part.strip()!r} is not a range from 1 upwards")
            if last - first >= most:
                raise click.BadParameter(f"more than {most} are too many")
            found.update(range(first, last + 1))
        return tuple(sorted(found))

    return read


GRANULARITIES = _numbers("granularities", 50, "1-10 or 1,3,5")
COUNTS = _numbers("numbers", 1024, "2 or 1,2,4")
