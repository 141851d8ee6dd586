"""Base class of commands, which a distribution implements to add one to ``dlbricks``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


class Command(ABC):
    """A command of ``dlbricks``.

    The class is imported whenever the list of commands is shown, so its module imports little.
    """

    #: Name that users type, equal to the entry point's name.
    name: str
    #: Purpose in one line, for the list of commands.
    purpose: str
    #: Whether it predicts. Predictions use many small matrices, which are slower with the threads
    #: of numpy's BLAS.
    predicts: bool = False
    #: Whether the same command goes on after an interruption, because the store keeps what was
    #: measured.
    resumes: bool = False

    @abstractmethod
    def load(self) -> click.Command:
        """Imports the command. It returns its exit status, or ``None`` for 0."""
