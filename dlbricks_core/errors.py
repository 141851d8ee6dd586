"""Errors that a user can act on."""

from __future__ import annotations

import errno
import reprlib
from typing import Self


class DLBricksError(Exception):
    """Base of every error that DLBricks raises on purpose.

    Args:
        message: Description of the error, in one line.
        hint: Advice for the user, in one line; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = ""
        self.with_hint(hint)

    def with_hint(self, hint: str) -> Self:
        """This error, with a hint in place of none."""
        self.hint = hint
        if hint:
            self.add_note(hint)  # tracebacks show it below the message
        return self

    def __str__(self) -> str:
        return self.message


class ModelError(DLBricksError):
    """A model cannot be read or lowered into the IR."""


class UnboundDimensionsError(ModelError):
    """A model has dynamic dimensions that no binding gives a size."""


class UnsupportedError(DLBricksError):
    """A backend or the engine has no counterpart for a layer."""


class PluginError(DLBricksError):
    """A plugin is unknown, broken, or clashes with another."""


class UnknownPluginError(PluginError):
    """No plugin has that name."""


class StoreError(DLBricksError):
    """The result store cannot be opened, read or written."""


class BackendError(DLBricksError):
    """A backend or its worker process failed."""


INVALID_MODEL = "The file is damaged or not a valid ONNX model; try onnx.checker on it."
"""Hint for a model that violates the standard."""

WRONG_SIZES = "Check the sizes given for dynamic dimensions."
"""Hint for a layer that does not fit its inputs, in a model that leaves sizes open."""

WRONG_VALUES = "Check the values given for inputs."
"""Hint for a layer that does not fit its inputs, in a model with values given by the user."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of the errors of a full disk, and of a user's full share of it."""


def is_full(error: BaseException) -> bool:
    """Whether an error means that a disk has no room left."""
    return isinstance(error, OSError) and error.errno in _FULL


def or_room(error: OSError, other: str) -> str:
    """Hint for a file that cannot be written.

    Args:
        error: Why it cannot.
        other: Hint that helps for every reason: a sentence in the imperative.

    Examples:
        >>> or_room(OSError(errno.ENOSPC, "No space left on device"), "Name another file.")
        'Free some space, or name another file.'
    """
    return f"Free some space, or {other[0].lower()}{other[1:]}" if is_full(error) else other


_NAME_LETTERS = 80
_REASON_LETTERS = 200

_names = reprlib.Repr()
_names.maxstring = _NAME_LETTERS


def shown(name: str) -> str:
    """A name from a file in quotes, of bounded length."""
    return _names.repr(name)


def reason(error: BaseException) -> str:
    """Message of an exception, in one line of bounded length."""
    text = " ".join(str(error).split())
    text = text if len(text) <= _REASON_LETTERS else f"{text[:_REASON_LETTERS]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Border:
    """Boundary for untrusted input: any exception inside becomes a ModelError.

    The error names the place; a ModelError from further inside gets the place in front of its
    message. Any other exception becomes one. Entered for every layer of a model, so it formats
    nothing until something is wrong.

    Args:
        place: Object that is read or processed.
        name: Its name in the file, if ``place`` does not say that.

    Examples:
        >>> with Border("tensor", proto.name):
        ...     check(proto)
    """

    __slots__ = ("_name", "_place")

    def __init__(self, place: str, name: str | None = None) -> None:
        self._place = place
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if not isinstance(error, Exception):
            return
        where = self._place if self._name is None else f"{self._place} {shown(self._name)}"
        if isinstance(error, ModelError):
            raise type(error)(f"{where}: {error.message}", hint=error.hint) from error
        if isinstance(error, MemoryError):
            hint = "Free memory, or raise the limit that this process runs under."
            raise ModelError(f"{where}: the memory is not enough", hint=hint) from error
        if not isinstance(error, DLBricksError):
            raise ModelError(f"{where}: {reason(error)}", hint=INVALID_MODEL) from error


def first_line(error: BaseException) -> str:
    """Type of an exception and the first line of its message: ``ValueError: too long``."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
