"""Kinds of values of settings: how they come from the command line, and from Python."""

from __future__ import annotations

import math
import operator
import os
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import click

from dlbricks_core.passes.options import InputValue

Conversion = Callable[[Any], Any]
"""A function that gives a value from Python in the type that the library works with.

It raises ``TypeError`` or ``ValueError`` for anything else.
"""


@dataclass(frozen=True)
class Kind:
    """Kind of the values of a setting."""

    convert: Conversion  #: Conversion of values from Python.
    words: str  #: Description of these values, which ends an error message.
    #: Type of the option, which converts texts of the command line; ``None`` for text as it is
    #: typed.
    text: Any = None
    flag: bool = False  #: Whether the option has no text: it stands for ``True``.
    repeated: bool = False  #: Whether the option may be given more than once.


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


def _threads(text: str) -> int | dict[str, int]:
    """A number of threads, or one for each phase of an answer, as ``prompt=8,token=4``."""
    parts = dict(each.partition("=")[::2] for each in text.split(","))
    try:
        found = {name: int(number or name) for name, number in parts.items()}
    except ValueError:
        found = {}
    if not found or min(found.values()) < 1 or (len(found) > 1) != all(parts.values()):
        raise click.BadParameter(
            f"{text!r} is not a number of threads: write 4, or for the phases of an answer "
            "prompt=8,token=4"
        )
    return found if any(parts.values()) else next(iter(found.values()))


GRANULARITIES = _numbers("granularities", 50, "1-10 or 1,3,5")
COUNTS = _numbers("numbers", 1024, "2 or 1,2,4")


def _pictures(value: Any) -> tuple[int, ...]:
    """A number of pictures, and maybe their width and height."""
    parts = [value] if isinstance(value, int) else value
    found = tuple(at_least(1)(each) for each in parts)
    if isinstance(value, str) or len(found) not in (1, 3):
        raise ValueError
    return found


def _pictures_of_text(text: str) -> tuple[int, ...]:
    """A number of pictures from a text such as 2 or 2x640x480."""
    try:
        return _pictures([int(part) for part in text.split("x")])
    except (TypeError, ValueError) as error:
        raise click.BadParameter(
            f"{text!r:.40} cannot be a number of pictures: write 2, or 2x640x480 with their sizes"
        ) from error


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise TypeError
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Several texts; a single one is refused."""
    if isinstance(value, str):
        raise TypeError
    return tuple(text(each) for each in value)


def at_least(least: int) -> Conversion:
    """Conversion to a whole number that is not below a limit."""

    def convert(value: Any) -> int:
        number = operator.index(value)
        if number < least:
            raise ValueError
        return number

    return convert


def by_name(convert: Conversion) -> Conversion:
    """Conversion of a mapping whose keys are names."""

    def convert_each(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        return {text(key): convert(each) for key, each in value.items()}

    return convert_each


def number(value: Any) -> float:
    """A number."""
    if not isinstance(value, Real):
        raise TypeError
    return float(value)


def constant(value: Any) -> InputValue:
    """Constant value of an input: a number, one for each element, or ``None`` for no input."""
    if value is None:
        return None
    several = isinstance(value, Iterable) and not isinstance(value, str)
    return tuple(map(number, value)) if several else number(value)


def sizes(value: Any) -> tuple[int, ...]:
    """One size or several, each once."""
    several = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return tuple(dict.fromkeys(map(at_least(0), several)))


def points(value: Any) -> tuple[int | tuple[int, ...], ...]:
    """Sizes, each once; tuples of sizes where several dimensions vary together."""
    several = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return tuple(
        dict.fromkeys(
            shape(each) if isinstance(each, Iterable) else at_least(0)(each) for each in several
        )
    )


def shape(value: Any) -> tuple[int, ...]:
    """Sizes of an input's dimensions."""
    return tuple(at_least(0)(size) for size in value)


def store(value: Any) -> Any:
    """Path or URL of a store, or an open one."""
    from dlbricks_core.store import ResultStore  # show and --help have no store

    return value if isinstance(value, ResultStore) else os.fspath(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _above_zero(value: Any) -> float:
    found = number(value)
    if not found > 0:
        raise ValueError
    return found


def _counts(value: Any) -> tuple[int, ...]:
    """One or several distinct numbers, each 1 or more."""
    found = sizes(value)
    if not found or 0 in found:
        raise ValueError
    return found


def _threads_or_by_phase(value: Any) -> int | dict[str, int]:
    convert = at_least(1)
    found: int | dict[str, int] = (by_name(convert) if isinstance(value, Mapping) else convert)(
        value
    )
    return found


FLAG = Kind(_flag, "True or False", flag=True)
PATH = Kind(Path, "a path", click.Path(path_type=Path, dir_okay=False))
EXISTING = Kind(Path, "a path", click.Path(path_type=Path, exists=True, dir_okay=False))
THREADS = Kind(
    _threads_or_by_phase, "a whole number of threads, 1 or more, or one for each phase", _threads
)
PICTURES = Kind(
    _pictures, "a whole number of pictures, or (number, width, height)", _pictures_of_text
)
SEED = Kind(at_least(0), "a whole number, 0 or more", click.IntRange(min=0))


def name_of(what: str, example: str, text_type: Any = None) -> Kind:
    """Kind of the name of something."""
    return Kind(text, f"the name of {what}, such as {example!r}", text_type)


def names_such_as(*examples: str, of: str = "names", repeated: bool = False) -> Kind:
    """Kind of a list of texts."""
    return Kind(texts, f"a list of {of}, such as {list(examples)!r}", repeated=repeated)


def one_of(names: Iterable[str]) -> Kind:
    """Kind of a name out of a few. Whether a name from Python is one, its user checks."""
    known = list(names)
    return Kind(text, f"one of {', '.join(map(repr, known))}", click.Choice(known))


def whole(of: str) -> Kind:
    """Kind of a whole number of things, 1 or more."""
    return Kind(at_least(1), f"a whole number of {of}, 1 or more", POSITIVE)


def counts(of: str) -> Kind:
    """Kind of one or several whole numbers of things."""
    return Kind(_counts, f"a whole number of {of}, 1 or more, or several of them", COUNTS)


def sizes_of(of: str, text_type: Any = None) -> Kind:
    """Kind of one or several sizes."""
    return Kind(sizes, f"a whole number of {of}, or several of them", text_type)


def above_zero(unit: str, example: int, text_type: Any) -> Kind:
    """Kind of a number with a unit."""
    return Kind(_above_zero, f"a number of {unit} above 0, such as {example}", text_type)


def mapping(what: str, example: str, convert: Conversion) -> Kind:
    """Kind of values by name, which the command line has as texts NAME=VALUE."""
    return Kind(by_name(convert), f"{what} by name, such as {example}", repeated=True)
