"""Notes on surveys, and their sentences.

Modules that make a note import the functions from here, so that its sentence is there.
"""

from __future__ import annotations

from dlbricks_core.facts.note import note, warning
from dlbricks_core.report.notes import NAMED, add_words
from dlbricks_core.wording import listed

__all__ = ["note", "warning"]

add_words(
    {
        "probes-disturbed": lambda networks: (
            f"{listed(networks, NAMED)}: other programs disturbed the timing, so it is used for no "
            "other network"
        ),
        "no-further-probe-helps": lambda probes, of_probes: (
            f"{probes} of {of_probes} probes were timed: no further probe would narrow the "
            "intervals of other networks"
        ),
    }
)
