"""The dial: times as few bricks as the requested precision permits, from none to all."""

from dlbricks_core.workflows.dial.loop import dial

__all__ = ["dial"]
