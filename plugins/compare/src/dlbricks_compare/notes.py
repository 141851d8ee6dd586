"""Notes on comparisons, and their sentences.

Modules that make a note import the functions from here, so that its sentence is there.
"""

from __future__ import annotations

from dlbricks_core.facts.note import note
from dlbricks_core.report.notes import add_words
from dlbricks_core.wording import argument

__all__ = ["note"]

add_words(
    {
        "parts-of-own-layers": lambda backends: (
            f"parts are cut from the models' own layers, not from the graphs of "
            f"{' or '.join(backends)}: timed alone, they include conversions of layout and "
            "lack the fusions of whole models"
        ),
        "load-unknown": lambda sessions, of_sessions: (
            f"the CPU use of other programs is unknown for {sessions} of {of_sessions} sessions: "
            "there, the fastest backend is decided by intervals alone"
        ),
        "different-sessions": lambda models, of_models: (
            f"{models} of {of_models} models or their parts were timed in different sessions on "
            "different backends: drift of the machine is part of their ratios "
            f"({argument('force')} times all anew)"
        ),
        "cuts-unknown": lambda backend, places: (
            f"the tensors that {backend} passes on are unknown at {places} of its cuts; parts "
            "reach across these cuts"
        ),
        "no-common-cut": lambda: (
            "no cut is known to be common to all backends; only the whole model is compared"
        ),
        "parts-do-not-add-up": lambda share: (
            f"its parts add up to {share:.0%} of the whole model's figure; the table of parts does "
            "not explain the difference"
        ),
        "parts-contradict": lambda backend: (
            f"{backend} takes less end to end, but more in the sum of its parts; the table of "
            "parts does not explain the difference"
        ),
    }
)
