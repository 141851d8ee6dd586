"""Surveys of a machine, and files of reference data.

It adds the action ``survey`` to ``dlbricks machine``, whose two modes are functions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_survey.api import Surveyed, pack_survey, take_survey

__all__ = ["Surveyed", "pack_survey", "take_survey"]

lazy(__name__)
