"""Sentences of notes on predictions.

Modules that make a note import the function from here, so that its sentence is there.
"""

from __future__ import annotations

from dlbricks_core.facts.note import note
from dlbricks_core.report.notes import NAMED, add_words
from dlbricks_core.wording import argument, count, listed

__all__ = ["note"]

_TYPES = {"codes": "quantized numbers"}
"""Words for types that are not element types."""

add_words(
    {
        "backend-not-measured": lambda backend: (
            f"nothing was measured with {backend}: predictions rest on facts of the processor alone"
        ),
        "measured-elsewhere": lambda backend, here, threads, cpu, cpu_threads: (
            f"{backend} was not measured on {'this' if here else 'that'} system with "
            f"{count(threads, 'thread')}: predictions rest on {cpu or 'another processor'} with "
            f"{count(cpu_threads, 'thread')}"
            + (f"; 'machine calibrate' with {argument('rates')} narrows them in seconds" * here)
        ),
        "type-not-measured": lambda backend, dtype, layers: (
            f"nothing was measured in {_TYPES.get(dtype, dtype)} with {backend} on a "
            f"processor like this ({listed(layers, NAMED)}): the speed relative to float32 is "
            "unknown, and the interval is wider for it"
        ),
        "operators-not-measured": lambda backend, operators: (
            f"no layer that is computed like {', '.join(operators)} was measured with {backend}: "
            "latencies of these layers are estimated from their sizes alone"
        ),
    }
)
