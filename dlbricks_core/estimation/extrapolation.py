"""Reasons for wide predicted intervals: bricks and systems unlike the measured ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.bricks.naming import fold
from dlbricks_core.estimation.results import ModelResult, RunResult
from dlbricks_core.facts import Note
from dlbricks_core.facts.note import note, warning
from dlbricks_core.figures.figure import interval, relative_half_width
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.measure.request import Request
from dlbricks_core.operators.domains import as_run_by, operator_domains
from dlbricks_core.wording import listed

_TIMES = 2.0
"""Uncertainty above which a brick counts as unlike the measured ones, as a multiple of the median
brick's.
"""

_LEAST = 0.3
"""Minimum uncertainty of such a brick: standard deviation of the logarithm of its latency."""

_MOST = 0.4
"""Uncertainty above which a brick always counts as unlike the measured ones, even if most bricks
do.
"""

_WIDENED = 0.03
"""Minimum widening of a model's interval for a note, as a relative half-width."""

_SEVERAL = 3
"""Minimum number of bricks for a comparison of one brick with all others."""

_SMALLEST_MS = 1e-9
"""Milliseconds that replace a draw of 0."""

_NAMED = 3
"""Maximum number of bricks that a note names; bricks that widen the interval most come first."""


def too_many_threads(request: Request) -> Iterator[Note]:
    """A note on more threads than the system has CPUs.

    Args:
        request: How and where the bricks run.
    """
    threads, cpus = request.setup.threads, request.target.logical_cpus
    if 0 < cpus < threads:
        yield warning("threads-beyond-cpus", threads=threads, cpus=cpus)


def foreign_operators(result: RunResult) -> Iterator[Note]:
    """A note on operators of other domains than ONNX's, which the backend may not support.

    No framework runs for a prediction, so no framework has refused them.

    Args:
        result: The bricks, some of them predicted.
    """
    backend = result.request.setup.backend
    domains = result.request.backend.traits.domains
    if domains is None:
        return
    lacking = {each.name for each in operator_domains()} - domains
    found = {
        layer.qualified_op
        for each in result.bricks
        if isinstance(each.latency, Predicted)
        for layer in as_run_by(domains, each.brick.model).layers
        if layer.domain in lacking
    }
    if found:
        yield note("operators-may-be-unsupported", backend=backend, operators=sorted(found))


def far_bricks(result: RunResult) -> Iterator[Note]:
    """Notes on models whose intervals are wide because of bricks unlike all measured ones.

    The notes also have the widths of the intervals without this additional uncertainty. Models with
    the same such bricks, for example one model at several sizes, share a note.
    """
    figures = {each.brick.signature: each.latency for each in result.bricks if each.latency}
    far = _far({s: each for s, each in figures.items() if isinstance(each, Predicted)})
    alike: dict[tuple[tuple[str, ...], int, bool], list[_Wide]] = {}
    for model in result.models:
        counts = {s: n for s, n in model.cut.counts.items() if s in figures}
        if own := [signature for signature in counts if signature in far]:
            draws = {s: n * figures[s].plausible for s, n in counts.items()}
            if wide := _wide(model, draws, own):
                key = wide.bricks, wide.more, bool(wide.without)
                alike.setdefault(key, []).append(wide)
    yield from map(_unlike, alike.values())


def _far(predicted: Mapping[str, Predicted]) -> set[str]:
    """Bricks whose latency is much more uncertain than that of other or of known bricks.

    Uncertainty that all bricks share, for example of an unknown system, appears in the median of
    each draw and is left out.
    """
    if not predicted:
        return set()
    logs = np.log([np.maximum(each.draws, _SMALLEST_MS) for each in predicted.values()])
    logs -= logs.mean(axis=1, keepdims=True)
    several = len(logs) >= _SEVERAL
    spreads = np.std(logs - np.median(logs, axis=0) if several else logs, axis=1)
    limit = float(np.clip(_TIMES * np.median(spreads), _LEAST, _MOST)) if several else _LEAST
    return {s for s, spread in zip(predicted, spreads, strict=True) if spread > limit}


@dataclass(frozen=True)
class _Wide:
    """A model whose interval is wide because of bricks unlike all measured ones.

    Attributes:
        model: Name of the model.
        bricks: Operators of the bricks that widen the interval most.
        more: Number of further bricks.
        now: Relative half-width of the interval.
        without: Relative half-width without these bricks; 0 if there are no other bricks.
    """

    model: str
    bricks: tuple[str, ...]
    more: int
    now: float
    without: float


def _wide(model: ModelResult, draws: Mapping[str, FloatArray], far: Sequence[str]) -> _Wide | None:
    """The width of a model's interval, if the far bricks widen it notably.

    Args:
        model: The model.
        draws: Draws of the total latency of all occurrences of each brick, by signature.
        far: Bricks that are unlike all measured ones.
    """
    total = np.sum(list(draws.values()), axis=0)
    others = total - np.sum([draws[signature] for signature in far], axis=0)
    drawn = relative_half_width(interval(total))
    without = relative_half_width(interval(others)) if len(far) < len(draws) else 0.0
    if drawn - without < _WIDENED:
        return None
    # The composer widens the sum of the draws: the note has the width that the report shows.
    now = relative_half_width(model.estimate.interval) or drawn
    if max(drawn, now) < 1:
        without = math.tanh(math.atanh(without) * math.atanh(now) / math.atanh(drawn))
    widest = sorted(far, key=lambda signature: -float(np.std(draws[signature])))
    named = tuple(fold(model.cut.operators(signature)) for signature in widest[:_NAMED])
    return _Wide(model.cut.model.name, named, len(far) - len(named), float(now), float(without))


def _unlike(alike: Sequence[_Wide]) -> Note:
    """The note on models that are wide because of the same bricks."""
    first = alike[0]
    return note(
        "bricks-unlike-measured",
        listed([each.model for each in alike], _NAMED),
        bricks=first.bricks,
        more=first.more,
        half_widths=[each.now for each in alike],
        half_widths_without=[each.without for each in alike] if first.without else [],
    )
