"""The dial: times as few bricks as the requested precision permits, from none to all."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.workflows.dial.loop import dial

__all__ = ["dial"]

lazy(__name__)
