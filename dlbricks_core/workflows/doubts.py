"""Bricks that are unlike all that was measured, and what they do to intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from dlbricks_core.bricks.naming import fold
from dlbricks_core.figures.figure import Figure, Predicted, interval, relative_half_width
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.workflows.results import ModelResult, RunResult

_FAR = 0.6
"""Half-width of a brick's predicted interval, relative to its middle, beyond which nothing that was
measured is like it."""

_WIDENED = 0.02
"""Least widening of a model's interval that is worth a note, in the same measure."""

_NAMED = 3
"""Bricks that a note names: those that widen the interval most."""


def far_from_measured(result: RunResult) -> Iterator[str]:
    """A sentence for each model whose interval is wide because of bricks unlike all measured ones.

    It says how wide the interval would be if those bricks were known.
    """
    figures = {each.brick.signature: each.latency for each in result.bricks if each.latency}
    far = {signature for signature, figure in figures.items() if _is_far(figure)}
    for model in result.models:
        counts = {s: n for s, n in model.cut.counts.items() if s in figures}
        if not far.isdisjoint(counts):
            yield from _told(model, {s: n * figures[s].plausible for s, n in counts.items()}, far)


def _is_far(figure: Figure) -> bool:
    return isinstance(figure, Predicted) and relative_half_width(interval(figure.draws)) > _FAR


def _told(model: ModelResult, draws: Mapping[str, FloatArray], far: set[str]) -> Iterator[str]:
    """The sentence about one model, if its interval is notably wider for the far bricks.

    Args:
        model: The model.
        draws: Draws of what all occurrences of each brick take together, by signature.
        far: Bricks that are unlike all measured ones.
    """
    own = [signature for signature in draws if signature in far]
    total = np.sum(list(draws.values()), axis=0)
    settled = total - sum(draws[s] - draws[s].mean() for s in own)
    now, then = (relative_half_width(interval(each)) for each in (total, settled))
    if now - then < _WIDENED:
        return
    own.sort(key=lambda signature: -float(np.std(draws[signature])))
    named = "; ".join(fold(model.cut.operators(signature)) for signature in own[:_NAMED])
    more = f" and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
    verb = "is" if len(own) == 1 else "are"
    yield (
        f"{model.cut.model.name}: {named}{more} {verb} unlike all that was measured; the interval "
        f"is ±{now:.0%}, and would be ±{then:.0%} without them"
    )
