"""What a workflow tells those who watch it."""

from __future__ import annotations


class Observer:
    """Hears of progress. This class ignores it; others show it."""

    def stage(self, text: str, steps: int | None = None) -> None:
        """Hears that a new stage begins.

        Args:
            text: What happens, for people.
            steps: Number of calls of ``advance`` that will follow, if that is known.
        """

    def advance(self, what: str = "") -> None:
        """Hears that one step of the stage is done."""

    def note(self, text: str) -> None:
        """Hears of something that deserves a line."""
