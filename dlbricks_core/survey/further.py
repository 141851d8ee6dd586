"""Families that join the others once enough networks of these are drawn."""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.survey.families import Family

FURTHER: Mapping[Family, int] = {}
"""Families, and how many networks of each are drawn for about a hundred of the others."""
