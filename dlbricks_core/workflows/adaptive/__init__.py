"""Estimates from as few runs of whole models as their precision needs."""

from dlbricks_core.workflows.adaptive.loop import adaptive, recalled

__all__ = ["adaptive", "recalled"]
