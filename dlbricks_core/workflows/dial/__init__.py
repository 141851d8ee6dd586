"""The dial: from an estimate without any run to every brick timed, as far as precision asks."""

from dlbricks_core.workflows.dial.loop import dial
from dlbricks_core.workflows.dial.precisions import dialled

__all__ = ["dial", "dialled"]
