"""Notes: facts about figures that a user should see. Reports word them by their code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from dlbricks_core.facts.checks import checked

Severity = Literal["info", "warning", "doubtful"]

JSON = str | int | float | bool | None | Sequence["JSON"] | Mapping[str, "JSON"]

PLUGIN = "plugin"
"""Code of a note whose sentence comes from elsewhere, such as a warning of Python."""


@dataclass(frozen=True)
class Note:
    """A fact about figures, without words. Equal notes are one.

    Attributes:
        code: Name of the fact. ``report/notes.py`` has the sentence for each.
        severity: ``"doubtful"`` for figures that may be far off, ``"warning"`` for another reason
            to doubt figures, ``"info"`` for others.
        subject: Subject of the note: models, a backend, a place; empty where it is clear from the
            place of the note.
        values: Values in the sentence by name, as plain data in the units of their names.
    """

    code: str
    severity: Severity
    subject: str = ""
    # Equality is by all fields; a mapping has no hash.
    values: Mapping[str, JSON] = field(default_factory=dict, hash=False)

    def about(self, subject: str) -> Note:
        """A copy about a part of something larger, such as a model in a place."""
        return replace(self, subject=f"{subject}, {self.subject}" if self.subject else subject)

    def also(self, **values: JSON) -> Note:
        """A copy with further values."""
        return replace(self, values={**self.values, **values})

    def to_dict(self) -> dict[str, Any]:
        """The note as plain data."""
        return {
            "code": self.code,
            "severity": self.severity,
            "subject": self.subject,
            "values": dict(self.values),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Note:
        """Reverses :meth:`to_dict`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another type.
        """
        severity: Severity = next(
            (each for each in get_args(Severity) if each == data["severity"]), "info"
        )
        code, subject = (checked(data[each], str, each) for each in ("code", "subject"))
        return cls(code, severity, subject, checked(data["values"], dict, "values"))


def note(code: str, subject: str = "", **values: JSON) -> Note:
    """A note that is good to know.

    Examples:
        >>> note("store-ended", "resnet", precision=0.1).values
        {'precision': 0.1}
    """
    return Note(code, "info", subject, values)


def warning(code: str, subject: str = "", **values: JSON) -> Note:
    """A note on a reason to doubt figures."""
    return Note(code, "warning", subject, values)
