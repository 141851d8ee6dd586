"""What a workflow tells whoever watches it."""

from __future__ import annotations


class Observer:
    """Hears of progress; this one does not care."""

    def stage(self, text: str, steps: int | None = None) -> None:
        """A new stage begins.

        Args:
            text: What happens, for people.
            steps: How many ``advance`` will follow, if that is known.
        """

    def advance(self, what: str = "") -> None:
        """One step of the stage is done."""

    def note(self, text: str) -> None:
        """Something worth a line."""
