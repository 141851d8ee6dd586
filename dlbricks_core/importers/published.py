"""Published figures about the models of a collection, for comparison with a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

StudyData = Mapping[str, Any]
"""Content of ``study.json`` (``docs/reference/json.md``)."""


@dataclass(frozen=True)
class PublishedFigure:
    """A number from a publication, and the way to find its counterpart in a study.

    Attributes:
        figure: Number of the plot in the DLBricks paper with such numbers. A study's report shows
            the published number beside that plot.
        what: Meaning of the number, in a few words.
        where: System and granularity of the number; empty if it depends on neither.
        value: The number; a fraction where ``text`` shows a percentage.
        text: The number in the publication's own words.
        ours: Function that returns the same number of a study; ``None`` if the study lacks it.
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
