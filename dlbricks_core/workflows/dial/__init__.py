"""The dial: from an estimate without any run to every brick timed, as far as precision asks."""

from dlbricks_core.workflows.dial.asked import cut_and_precision
from dlbricks_core.workflows.dial.loop import dial

__all__ = ["cut_and_precision", "dial"]
