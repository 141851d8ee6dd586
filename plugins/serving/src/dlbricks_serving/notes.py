"""Notes on models under a load and on advice, and their sentences.

Modules that make a note import the function from here, so that its sentence is there.
"""

from __future__ import annotations

from dlbricks_core.facts.note import note, warning
from dlbricks_core.report.notes import add_words, time_text
from dlbricks_core.wording import argument, count

__all__ = ["note", "warning"]

_ALL = 0.995
"""Least share of a latency that counts as all of it."""


def _predicted(
    predicted: int, alternatives: int, answers: bool, least_share: float, most_share: float
) -> str:
    what = "answers" if answers else "latencies"
    ends = dict.fromkeys(
        ">99%" if each > _ALL else "<1%" if each < 1 - _ALL else f"{each:.0%}"
        for each in (least_share, most_share)
    )
    part = f", {' to '.join(ends)} of each" if least_share < _ALL else ""
    return (
        f"{predicted} of {alternatives} {what} are predicted{part}: the model was not measured "
        "there"
    )


add_words(
    {
        # Load patterns.
        "disturbances-not-predicted": lambda: (
            "predicted percentiles include the time in the line, but no disturbance of the "
            "machine: measured ones are longer"
        ),
        "bricks-too-short": lambda: (
            "its bricks take hardly longer than a call of the timer: composed figures may be "
            "several times off"
        ),
        # Advice.
        "not-accurate-enough": lambda least, models: (
            f"less accurate than {least:g}, and left out: {', '.join(models)}"
        ),
        "without-price": lambda systems: f"without a price, and left out: {', '.join(systems)}",
        "quantity-of-other-version": lambda quantity, backend, version, lacking: (
            f"{quantity} is that of {backend} {version}, because it was not observed with {lacking}"
        ),
        "latencies-predicted": _predicted,
        "quantity-predicted": lambda quantity, predicted, alternatives: (
            f"{quantity} is predicted in {predicted} of {alternatives} alternatives"
        ),
        "threads-of-phases": lambda prompt, token, prompt_ms, token_ms: (
            f"a prompt is fastest with {count(prompt, 'thread')} ({time_text(prompt_ms)}), a token "
            f"with {count(token, 'thread')} ({time_text(token_ms)}): "
            f"{argument('threads')} prompt={prompt},token={token}"
        ),
        "alternatives-beside-others": lambda busy, alternatives, most_load: (
            f"{busy} of {alternatives} latencies rest on samples that were measured while other "
            f"programs used up to {most_load:.0%} of the CPUs ('load' in the table): on a quiet "
            "machine they are shorter, and the intervals allow for that"
        ),
        "only-reference-data": lambda systems: (
            f"nothing in the store is from {', '.join(systems)}: the atlas alone knows it"
        ),
    }
)
