"""Published figures about the models of a collection, for comparison with a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

StudyData = Mapping[str, Any]
"""A study as ``study.json`` holds it (``docs/reference/json.md``)."""


@dataclass(frozen=True)
class PublishedFigure:
    """A number from a publication, and the way to find its counterpart in a study.

    Attributes:
        figure: Number of the plot in the DLBricks paper that shows such numbers. The number
            stands beside that plot in a study's report.
        what: Meaning of the number, in a few words.
        where: System and granularity that the number holds for; empty if it depends on neither.
        value: The number; a fraction where ``text`` shows a percentage.
        text: The number in the publication's own words.
        ours: Function that takes the same number from a study; ``None`` where the study has none.
        style: Format of the number, such as ``".1%"``.
    """

    figure: int
    what: str
    where: str
    value: float
    text: str
    ours: Callable[[StudyData], float | None]
    style: str

    def worded(self, value: float | None) -> str:
        """A number of a study, for people to read."""
        return "–" if value is None else format(value, self.style)


@dataclass(frozen=True)
class Publication:
    """A publication about the models of a collection.

    Attributes:
        source: Authors, title, place and year.
        models: Number of models that the publication studied.
        figures: Its numbers, in the order in which reports show them.
    """

    source: str
    models: int
    figures: Sequence[PublishedFigure]
