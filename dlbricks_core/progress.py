"""Observers of workflows."""

from __future__ import annotations


class Observer:
    """Receives the progress of a workflow. This class ignores it; subclasses show it."""

    def stage(self, text: str, steps: int | None = None) -> None:
        """Called when a new stage begins.

        Args:
            text: Description of the stage for the user.
            steps: Number of calls of ``advance`` that will follow, if known.
        """

    def advance(self, what: str = "") -> None:
        """Called when one step of the stage is done."""

    def note(self, text: str) -> None:
        """Called with a note to the user."""
