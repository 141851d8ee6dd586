"""Notes on models at several sizes, and their sentences.

Modules that make a note import the function from here, so that its sentence is there.
"""

from __future__ import annotations

from dlbricks_core.facts.note import note
from dlbricks_core.report.notes import add_words, time_text

__all__ = ["note"]

add_words(
    {
        "engine-python": lambda engine, ms, measured: (
            f"latencies include up to {time_text(ms)} for the Python code of {engine}: its number "
            "of calls times "
            + (
                "a call's time here"
                if measured
                else "a call's time by the processor's published speed"
            )
        ),
        "engine-faults": lambda engine, ms: (
            f"latencies include up to {time_text(ms)} for page faults of {engine}, whose allocator "
            "gives memory back and takes it again: from none to twice as many in one process or "
            "another"
        ),
        "sizes-ran-before": lambda most_times: (
            "figures are for sizes that have run before in their session: the first run at a new "
            f"size takes up to {most_times:g} times as long, above all in small models"
        ),
        "scores-of-all-tokens": lambda output, tokens: (
            f"it computes {output} for all {tokens:,} tokens of the prompt, but an answer needs "
            "only those of the last token: a model that computes only these is faster"
        ),
        "beyond-context": lambda tokens, longest: (
            f"prompt and answer have {tokens:,} tokens, but its configuration is for {longest:,}: "
            "it takes as long, but its text may be of no use"
        ),
    }
)
