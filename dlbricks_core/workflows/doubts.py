"""Reasons for wide predicted intervals: bricks and systems unlike those that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.bricks.naming import fold
from dlbricks_core.figures.figure import Predicted, interval, relative_half_width
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.figures.widths import widest_text
from dlbricks_core.passes.contrib.owner import DOMAIN, as_run_by
from dlbricks_core.predict import Contribution
from dlbricks_core.predict.baseline import Processor
from dlbricks_core.predict.from_atlas import processor_of
from dlbricks_core.predict.kinds import class_of, group_of, kinds_of
from dlbricks_core.predict.nearness import distance
from dlbricks_core.wording import listed
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import ModelResult, RunResult

_TIMES = 2.0
"""Uncertainty above which a brick counts as unlike the measured ones, as a multiple of the median
brick's.
"""

_LEAST = 0.3
"""Minimum uncertainty of such a brick: standard deviation of the logarithm of its latency."""

_MOST = 0.4
"""Uncertainty above which a brick always counts as unlike the measured ones, even if most of the
other bricks are as well.
"""

_WIDENED = 0.03
"""Minimum widening of a model's interval that deserves a note, as a relative half-width.
"""

_SEVERAL = 3
"""Minimum number of bricks for comparing one with the others."""

_SMALLEST_MS = 1e-9

_NAMED = 3
"""Maximum number of bricks that a note names: those that widen the interval most."""


def far_systems(request: Request, atlas: Sequence[Contribution]) -> Iterator[str]:
    """A sentence on the basis of predictions, if nothing was measured with this setup here.

    Args:
        request: How and where the bricks run.
        atlas: What was measured, here and elsewhere, with this backend.
    """
    name, threads = request.setup.backend, request.setup.threads
    if not atlas:
        yield f"nothing was measured with {name}: predictions rest on facts of the processor alone"
        return

    def far(each: Contribution) -> tuple[float, float]:
        octaves = abs(math.log2(each.setup.threads / threads))
        return distance(each.system, request.target), octaves

    nearest = min(atlas, key=far)
    if any(far(nearest)):
        number = nearest.setup.threads
        system = "that system" if request.elsewhere else "this system"
        yield (
            f"{name} was not measured on {system} with {_count(threads)}: predictions rest on "
            f"{nearest.system.cpu or 'another processor'} with {_count(number)}"
        )


def _count(threads: int) -> str:
    return f"{threads} thread{'' if threads == 1 else 's'}"


_SAID = {"codes": "quantized numbers"}
"""Words for types that are no element type."""


def far_types(result: RunResult, atlas: Sequence[Contribution]) -> Iterator[str]:
    """A sentence on each short element type of bricks in which some layers were not measured.

    Args:
        result: The bricks, some of them predicted.
        atlas: What was measured, here and elsewhere, with this backend.
    """
    predicted = [each.brick.model for each in result.bricks if isinstance(each.latency, Predicted)]
    asked = {group_of(kind) for model in predicted for kind in kinds_of(model)}
    request = result.request
    processor = Processor.of(request.target, request.setup.threads)
    known = {
        (name, dtype)
        for each in atlas
        for name, dtype in set(map(group_of, set(each.features.kinds)))
        if processor_of(each).handling(dtype) == processor.handling(dtype)
    }
    new = [(name, dtype) for name, dtype in sorted(asked - known) if dtype]
    for dtype in sorted({dtype for _, dtype in new}):
        layers = listed([name for name, other in new if other == dtype], _NAMED)
        yield (
            f"nothing was measured in {_SAID.get(dtype, dtype)} with {request.setup.backend} on a "
            f"processor like this ({layers}): how fast that is beside float32 is not known, and "
            "the interval allows for it"
        )


def far_operators(result: RunResult, atlas: Sequence[Contribution]) -> Iterator[str]:
    """A sentence on operators of bricks unlike all that were measured.

    Args:
        result: The bricks, some of them predicted.
        atlas: What was measured, here and elsewhere, with this backend.
    """
    backend = result.request.setup.backend
    known = {class_of(kind) for each in atlas for kind in set(each.features.kinds)}
    predicted = [
        as_run_by(backend, each.brick.model)
        for each in result.bricks
        if isinstance(each.latency, Predicted)
    ]
    unlike = {
        layer.op
        for model in predicted
        for layer, kind in zip(model.layers, kinds_of(model), strict=True)
        if class_of(kind) not in known
    }
    if known and unlike:
        yield (
            f"nothing was measured that is computed like {', '.join(sorted(unlike))} with "
            f"{backend}: how fast such layers are is guessed from their size"
        )


def foreign_operators(result: RunResult) -> Iterator[str]:
    """A sentence on operators of other domains than ONNX's, which the backend may not support.

    No framework runs for a prediction, so that none has refused them.

    Args:
        result: The bricks, some of them predicted.
    """
    backend = result.request.setup.backend
    domains = result.request.backend.traits.domains
    if domains is None:
        return
    found = {
        layer.qualified_op
        for each in result.bricks
        if isinstance(each.latency, Predicted)
        for layer in as_run_by(backend, each.brick.model).layers
        if layer.domain == DOMAIN and DOMAIN not in domains
    }
    if found:
        yield (
            f"{backend} may not support {listed(sorted(found), _NAMED)}, which ONNX does not "
            "define: 'dlbricks run' tells"
        )


def far_bricks(result: RunResult) -> Iterator[str]:
    """Sentences on models whose intervals are wide because of bricks unlike all measured ones.

    They also give the widths of the intervals if these bricks were as well known as the others.
    Models that are wide because of the same bricks, such as one model at several sizes, share a
    sentence.
    """
    figures = {each.brick.signature: each.latency for each in result.bricks if each.latency}
    far = _far({s: each for s, each in figures.items() if isinstance(each, Predicted)})
    alike: dict[tuple[str, bool], list[_Wide]] = {}
    for model in result.models:
        counts = {s: n for s, n in model.cut.counts.items() if s in figures}
        if own := [signature for signature in counts if signature in far]:
            draws = {s: n * figures[s].plausible for s, n in counts.items()}
            if wide := _wide(model, draws, own):
                alike.setdefault((wide.bricks, bool(wide.without)), []).append(wide)
    yield from map(_told, alike.values())


def _far(predicted: Mapping[str, Predicted]) -> set[str]:
    """Bricks whose latency is much more uncertain than that of the others, or than a known one.

    Uncertainty that all bricks share, such as that of an unknown system, shows as the median of
    each draw and does not count.
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
        bricks: The bricks in a few words.
        them: Pronoun for the bricks.
        now: Relative half-width of the interval.
        without: The same without these bricks; 0 if there are no others.
    """

    model: str
    bricks: str
    them: str
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
    now = relative_half_width(interval(total))
    without = relative_half_width(interval(others)) if len(far) < len(draws) else 0.0
    if now - without < _WIDENED:
        return None
    widest = sorted(far, key=lambda signature: -float(np.std(draws[signature])))
    named = "; ".join(fold(model.cut.operators(signature)) for signature in widest[:_NAMED])
    more = f" and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    them = "it" if len(far) == 1 else "them"
    return _Wide(model.cut.model.name, f"{named}{more}", them, now, without)


def _told(alike: Sequence[_Wide]) -> str:
    """The sentence on models that are wide because of the same bricks."""
    first = alike[0]
    names = listed([each.model for each in alike], _NAMED)
    intervals = "the interval is" if len(alike) == 1 else "the intervals are"
    without = widest_text([each.without for each in alike])
    then = f", and would be {without} without {first.them}" if first.without else ""
    return (
        f"{names}: little that was measured is like {first.bricks}: {intervals} "
        f"{widest_text([each.now for each in alike])}{then}"
    )
