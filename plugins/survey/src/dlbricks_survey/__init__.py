"""Measurements of a machine that estimates rest on: surveys, calibrations, reference data.

It adds ``survey``, whose two modes are functions here, and ``calibrate`` to ``dlbricks machine``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_survey.api import Surveyed, pack_survey, take_survey

__all__ = ["Surveyed", "pack_survey", "take_survey"]

lazy(__name__)
