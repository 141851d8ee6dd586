"""How messages list names, and name arguments: as Python spells them, or as the command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

_spelled: Callable[[str], str] = str


def argument(name: str) -> str:
    """An argument's name as the user knows it.

    Args:
        name: Name in Python, such as ``budget_s``.

    Examples:
        >>> f"{argument('budget_s')} -1 is out of range"
        'budget_s -1 is out of range'
    """
    return _spelled(name)


def settings(**values: object) -> str:
    """Arguments with their values, as the user writes them.

    Args:
        **values: Values by the argument's name in Python; a mapping where an argument takes
            values by name, a tuple where it takes a shape, a list where it takes numbers.

    Examples:
        >>> settings(batch="N", shapes={"data": (1, 3)})
        "batch=N, shapes={'data': (1, 3)}"
        >>> with arguments_spelled("--{}".format):
        ...     settings(batch="N", shapes={"data": (1, 3)})
        '--batch N --shapes data=1x3'
    """
    if _spelled is str:
        return ", ".join(f"{name}={_in_python(value)}" for name, value in values.items())
    return " ".join(
        f"{_spelled(name)} {shlex.quote(each)}"
        for name, value in values.items()
        for each in _typed(value)
    )


def count(number: int, noun: str) -> str:
    """A number with its noun.

    Examples:
        >>> count(1, "model"), count(1713, "layer")
        ('1 model', '1,713 layers')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Names with ``and`` before the last; those beyond a number are counted.

    Args:
        names: At least one.
        most: Maximum number of names.

    Examples:
        >>> listed(["a", "b", "c"], 3)
        'a, b and c'
        >>> listed(["a", "b", "c"], 1)
        'a and 2 more'
    """
    shown = list(names[:most])
    last = f"{len(names) - most} more" if len(names) > most else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last


def clone_install(*folders: str) -> str:
    """Command that installs distributions of DLBricks. No package index has one.

    Args:
        *folders: Folder of each distribution in a clone, with extras if there are any. Those that
            others need come first.

    Examples:
        >>> clone_install("plugins/fleet")
        'pip install -c constraints.txt -e plugins/fleet (in a clone of DLBricks)'
    """
    editable = " ".join(f"-e {shlex.quote(folder)}" for folder in folders)
    return f"pip install -c constraints.txt {editable} (in a clone of DLBricks)"


def _in_python(value: object) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    shown = (f"{key!r}: {_numbers(each, '[{}]', ', ')}" for key, each in value.items())
    return f"{{{', '.join(shown)}}}"


def _numbers(value: object, around: str, between: str) -> str:
    if not isinstance(value, list):
        return str(value)
    return around.format(between.join(map(str, value)))


def _typed(value: object) -> Iterator[str]:
    """Texts that follow an option, which stands before each."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            (text,) = _typed(each)
            yield f"{key}={text}"
    else:
        yield "x".join(map(str, value)) if isinstance(value, tuple) else _numbers(value, "{}", ",")


def spelling() -> str:
    """The style in use as ``MODULE:FUNCTION``, for a process of our own; empty for Python's."""
    return "" if _spelled is str else f"{_spelled.__module__}:{_spelled.__qualname__}"


@contextmanager
def arguments_spelled(style: Callable[[str], str]) -> Iterator[None]:
    """Spells arguments in another way until the context ends, in all threads.

    Args:
        style: Gives the spelling of a name in Python; a function of a module, which child
            processes can import.
    """
    global _spelled
    before, _spelled = _spelled, style
    try:
        yield
    finally:
        _spelled = before
