"""Errors that a user can act on."""

from __future__ import annotations


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
