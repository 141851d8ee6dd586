"""Networks that a survey times: those that the core draws, then those of further families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlbricks_prediction import survey
from dlbricks_prediction.survey import Drawn
from dlbricks_prediction.survey.families import FAMILIES, Family

from dlbricks_survey.families.domains import ACTIVATED, BLOCKS, DOMAINS, ODD
from dlbricks_survey.families.further import FURTHER
from dlbricks_survey.families.short import SHORT

FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH = 1500, 2100, 2700, 3300, 3900, 4500
"""Number of networks that are drawn before each further group of families joins, so that earlier
atlases stay valid."""

_JOINING: Mapping[int, Mapping[Family, int]] = {
    FIRST: FURTHER,
    SECOND: ACTIVATED,
    THIRD: DOMAINS,
    FOURTH: SHORT,
    FIFTH: ODD,
    SIXTH: BLOCKS,
}
"""Families that join once so many networks are drawn."""


def draw(seed: int = 0) -> Iterator[Drawn]:
    """Networks without end, each once, in the same order everywhere.

    Args:
        seed: Where the sequence begins.
    """
    return survey.draw(seed, _JOINING)


def weights() -> Mapping[str, int]:
    """How often each family is drawn, relative to the others, by its name."""
    every = (FAMILIES, *_JOINING.values())
    return {family.__name__: number for each in every for family, number in each.items()}
