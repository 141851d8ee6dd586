"""Errors that a user can act on."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager


class DLBricksError(Exception):
    """Base of every error that DLBricks raises on purpose.

    Args:
        message: What went wrong, in one line.
        hint: What the user can do about it, in one line; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

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


class StoreError(DLBricksError):
    """The result store cannot be opened, read or written."""


class BackendError(DLBricksError):
    """A backend or its worker process failed."""


_NAME_LETTERS = 80
_REASON_LETTERS = 200
_INVALID = "The file is damaged or not a valid ONNX model; try onnx.checker on it."

_names = reprlib.Repr()
_names.maxstring = _NAME_LETTERS


def shown(name: str) -> str:
    """A name from a file in quotes, of bounded length."""
    return _names.repr(name)


def reason(error: BaseException) -> str:
    """What an exception says, in one line of bounded length."""
    text = " ".join(str(error).split())
    text = text if len(text) <= _REASON_LETTERS else f"{text[:_REASON_LETTERS]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def located(before: str, after: str = "") -> Iterator[None]:
    """The border of what untrusted input may do: whatever goes wrong inside is a ModelError.

    Args:
        before: Where it is, in front of the error's own words.
        after: The same, behind them.

    Raises:
        ModelError: With the place; in the place of any other exception as well.
    """
    try:
        yield
    except ModelError as error:
        raise type(error)(f"{before}{error.message}{after}", hint=error.hint) from error
    except DLBricksError:
        raise
    except MemoryError as error:
        raise ModelError(
            f"{before}the memory is not enough{after}",
            hint="Free memory, or raise the limit that this process runs under.",
        ) from error
    except Exception as error:
        raise ModelError(f"{before}{reason(error)}{after}", hint=_INVALID) from error
