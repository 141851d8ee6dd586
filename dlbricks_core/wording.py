"""How messages name arguments: as Python spells them, or as the command line does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_spelled: Callable[[str], str] = str


def argument(name: str) -> str:
    """An argument's name as the user knows it.

    Args:
        name: Name in Python, such as ``budget_s``.

    Example:
        >>> f"{argument('budget_s')} -1 is out of range"
        'budget_s -1 is out of range'
    """
    return _spelled(name)


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
