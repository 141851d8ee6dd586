"""Assembles the results of a run from its measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.compose import Estimate, Parallel, Plan
from dlbricks_core.facts import Measurement, Question
from dlbricks_core.figures.figure import (
    Figure,
    Measured,
    Origin,
    Placed,
    interval,
    rounds_of,
    undisturbed,
)
from dlbricks_core.figures.protocols import HOT
from dlbricks_core.figures.statistics import warnings_for
from dlbricks_core.measure.probe import Probe
from dlbricks_core.wording import argument
from dlbricks_core.workflows.composing import find_composer
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.measuring import Outcome
from dlbricks_core.workflows.model_result import Compared, ModelResult, PartResult
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import Benchmarking, BrickResult, RunResult

_NATIVE_TOLERANCE = 0.03
"""Minimum relative difference to the framework's own form that deserves a note."""

_CALIBRATED_ON = ("its interval is not calibrated: the calibration was taken on it, among others",)

NOT_MEASURED = "not measured"
"""Reason why a brick has no figure, where nothing failed."""

_IN_PLACE = ("the whole model was timed in place of its bricks",)


def assemble(
    request: Request,
    cutting: Cutting,
    outcome: Outcome,
    predicted_parts: Sequence[Mapping[str, Figure]] = (),
) -> RunResult:
    """Composes estimates and collects the results for each model and brick.

    Args:
        request: How networks were measured.
        cutting: The models, their bricks, and the plan from which the bricks' figures follow.
        outcome: Measurements and failures.
        predicted_parts: For each part of the quantity, figures of the bricks that are predicted.
    """
    brickset, plan, calibration = cutting.brickset, cutting.plan, cutting.calibration
    seen = calibration.signatures if calibration else frozenset()
    counts: dict[str, int] = {}
    for cut in brickset.models:
        for signature, count in cut.counts.items():
            counts[signature] = counts.get(signature, 0) + count
    for signature, brick in brickset.bricks.items():
        if brick.opaque:
            outcome.failures.setdefault(request.key(signature, "brick"), brick.opaque)
    known, *measured_parts = _figures(brickset.bricks, request, outcome)
    predicted = predicted_parts or [{} for _ in measured_parts]
    parts = [{**new, **own} for new, own in zip(predicted, measured_parts, strict=True)]
    latencies = plan.figures(known)
    composer, calibrated = _estimators(request, cutting, parts)
    bricks = [
        # The occurrences of bricks in a folder are unknown.
        _brick_result(brick, counts.get(signature, 1), latencies.get(signature), request, outcome)
        for signature, brick in brickset.bricks.items()
    ]
    models = [
        # A model's own measurement must not influence its estimate by way of a calibration.
        _model_result(cut, composer, plan, latencies, request, outcome, _CALIBRATED_ON)
        if cut.whole.signature in seen
        else _model_result(cut, calibrated, plan, latencies, request, outcome)
        for cut in brickset.models
    ]
    name = "" if request.probe else cutting.options.composer
    return RunResult(
        request=request,
        cutting=cutting,
        models=[
            replace(
                model,
                composer=name,
                parts=(
                    []
                    if _whole(model.cut, latencies)
                    else _part_results(model.cut, request, parts, outcome)
                ),
                memory=cutting.footprints.get(model.cut.whole.signature),
            )
            for model in models
        ],
        bricks=bricks,
        benchmarking=None if request.probe else _benchmarking(models, plan, latencies),
        outcome=outcome,
    )


class _Estimator(Protocol):
    """Composes estimates: a composer, or a probe for its quantity."""

    def compose(self, cut: CutModel, latencies: Mapping[str, Figure], /) -> Estimate:
        """Estimate of a model from figures of its bricks, by signature."""


@dataclass(frozen=True)
class _ByProbe:
    """Composes a quantity with its probe.

    Attributes:
        probe: The probe.
        parts: For each part of the quantity, figures of bricks by signature.
    """

    probe: Probe
    parts: Sequence[Mapping[str, Figure]]

    def compose(self, cut: CutModel, figures: Mapping[str, Figure], /) -> Estimate:
        whole = _whole(cut, figures)
        if whole is None:
            return self.probe.estimate(cut, [figures, *self.parts])
        ends = interval(whole.plausible, whole.value)
        return Estimate(whole.value, ends, (), ends, whole.plausible)


def _estimators(
    request: Request, cutting: Cutting, parts: Sequence[Mapping[str, Figure]]
) -> tuple[_Estimator, _Estimator]:
    """Two estimators: one with default parameters, one with parameters fitted to this system."""
    if request.probe:
        by_probe = _ByProbe(request.probe, parts)
        return by_probe, by_probe
    composer = find_composer(cutting.options.composer)
    fitted = cutting.calibration
    return composer, composer.calibrated(fitted.values) if fitted else composer


def _figures(
    networks: Iterable[str], request: Request, outcome: Outcome
) -> list[dict[str, Figure]]:
    """Figures of bricks by signature, for the quantity and then for each of its parts."""
    parts = request.probe.parts if request.probe else ()
    found: list[dict[str, Figure]] = [{} for _ in (request.quantity, *parts)]
    for signature in networks:
        key = request.key(signature, "brick")
        taken = [outcome.measurements.get(each) for each in (key, *request.parts(key))]
        if None not in taken:
            for figures, each in zip(found, filter(None, taken), strict=True):
                figures[signature] = Measured.of(each, request.protocol)
    return found


def _brick_result(
    brick: Brick, occurrences: int, latency: Figure | None, request: Request, outcome: Outcome
) -> BrickResult:
    key = request.key(brick.signature, "brick")
    measurement = outcome.measurements.get(key)
    quantity = request.quantity
    if latency is None:
        reason = outcome.failures.get(key, NOT_MEASURED)
        return BrickResult(brick, occurrences, None, failure=reason, quantity=quantity)
    origin = _origin(latency, key, outcome)
    if measurement is None:
        return BrickResult(brick, occurrences, latency, origin=origin, quantity=quantity)
    doubts = () if request.probe else warnings_for(latency.samples)
    warnings = (*doubts, *undisturbed(measurement).flags)
    return BrickResult(
        brick, occurrences, latency, warnings=warnings, origin=origin, quantity=quantity
    )


def _origin(figure: Figure, key: Question, outcome: Outcome) -> Origin:
    """Origin of a figure. Samples that this run did not take come from the store."""
    stored = figure.origin == "measured" and key not in outcome.anew
    return "stored" if stored else figure.origin


def _origins(
    cut: CutModel, latencies: Mapping[str, Figure], request: Request, outcome: Outcome
) -> Mapping[Origin, float]:
    """Shares of the sum over a model's known bricks, by the origin of their figures.

    Where a figure of the whole model stands in place of its bricks, it is the whole sum.
    """
    known = {signature: latencies[signature] for signature in cut.counts if signature in latencies}
    # Where no brick takes longer than a call of the timer, each counts alike.
    alike = not any(figure.own for figure in known.values())
    sums: dict[Origin, float] = {}
    for signature, figure in known.items():
        origin = _origin(figure, request.key(signature, "brick"), outcome)
        part = cut.counts[signature] * (1.0 if alike else figure.own)
        sums[origin] = sums.get(origin, 0.0) + part
    if whole := _whole(cut, latencies):
        sums = {_origin(whole, whole_key(cut.whole.signature, request, outcome), outcome): 1.0}
    total = sum(sums.values())
    return {origin: each / total for origin, each in sums.items()} if total else {}


def _whole(cut: CutModel, latencies: Mapping[str, Figure]) -> Figure | None:
    """Figure of a whole model that stands in place of its bricks; ``None`` otherwise.

    A model that is its own only brick has such a figure if it ran as a whole model.
    """
    whole = cut.whole.signature
    figure = latencies.get(whole)
    return figure if whole not in cut.counts or _ran_whole(figure) else None


def _ran_whole(figure: Figure | None) -> bool:
    measured = figure.measured if isinstance(figure, Placed) else None
    return isinstance(measured, Measured) and measured.protocol is HOT


def whole_key(signature: str, request: Request, outcome: Outcome) -> Question:
    """Key of a whole model: as its user runs it where it was measured so, or as it is lowered."""
    native = request.key(signature, "native")
    used = request.protocol is HOT and (
        native in outcome.measurements or native in outcome.failures
    )
    return native if used else request.key(signature, "model")


def _why_missing(keys: Sequence[Question], outcome: Outcome) -> str:
    """Reason why measurements under these keys give a brick no figure."""
    return next((outcome.failures[key] for key in keys if key in outcome.failures), NOT_MEASURED)


def _model_result(
    cut: CutModel,
    composer: _Estimator,
    plan: Plan,
    latencies: Mapping[str, Figure],
    request: Request,
    outcome: Outcome,
    notes: tuple[str, ...] = (),
) -> ModelResult:
    keys = {
        signature: [request.key(each, "brick") for each in _timed(signature, plan, latencies)]
        for signature in cut.counts
    }
    reasons = {
        signature: _why_missing(each, outcome)
        for signature, each in keys.items()
        if signature not in latencies and not _whole(cut, latencies)
    }
    unsupported = {
        s: r for s, r in reasons.items() if not outcome.unsupported.keys().isdisjoint(keys[s])
    }
    whole = whole_key(cut.whole.signature, request, outcome)
    measurement = outcome.measurements.get(whole)
    timed = dict.fromkeys(chain.from_iterable(keys.values()))
    bricks = [outcome.measurements[k] for k in timed if k in outcome.measurements]
    native_key = request.key(cut.whole.signature, "native")
    original = outcome.measurements.get(native_key) if native_key != whole else None
    standing = _whole(cut, latencies)
    in_place = standing is not None and standing.origin != "predicted"
    # A cold figure that an estimate rests on is no reference for the estimate.
    compared = None if in_place and request.protocol is not HOT else measurement
    measured = Measured.of(compared, request.protocol) if compared else None
    native = Measured.of(original, request.protocol) if original else None
    return ModelResult(
        cut=cut,
        estimate=composer.compose(cut, latencies),
        parallel=(
            # A model that was timed as a whole is not composed.
            Estimate(None, None)
            if request.probe or in_place
            else Parallel().compose(cut, latencies)
        ),
        measured=measured,
        missing=reasons,
        unsupported=unsupported,
        # Where a brick is missing, the whole model fails for the same reason.
        failure="" if reasons else outcome.failures.get(whole, ""),
        native=native,
        is_measurement=in_place,
        notes=(
            *cut.notes,
            *(_IN_PLACE if in_place and request.protocol is not HOT else notes),
            *(() if request.protocol is HOT else _session_notes(compared, bricks, request)),
            *_native_notes(measured, native),
        ),
        origin=_origins(cut, latencies, request, outcome),
    )


def _part_results(
    cut: CutModel,
    request: Request,
    figures: Sequence[Mapping[str, Figure]],
    outcome: Outcome,
) -> list[PartResult]:
    """Results for the parts of a quantity, from figures of the bricks' parts by signature."""
    if request.probe is None:
        return []
    estimates = request.probe.estimate_parts(cut, figures)
    keys = request.parts(request.key(cut.whole.signature, "model"))
    wholes = [outcome.measurements.get(key) for key in keys]
    return [
        PartResult(
            part, Compared(estimate, Measured.of(whole, request.protocol) if whole else None)
        )
        for (part, estimate), whole in zip(estimates.items(), wholes, strict=True)
    ]


def _timed(signature: str, plan: Plan, latencies: Mapping[str, Figure]) -> Sequence[str]:
    """Signatures of the networks behind a brick's figure: the brick itself or others."""
    latency = latencies.get(signature)
    if latency is None:
        return plan.sources(signature)
    return latency.networks(signature)


def _native_notes(measured: Figure | None, native: Figure | None) -> tuple[str, ...]:
    """A note if export and lowering changed the latency of a model."""
    if (
        measured is None
        or native is None
        or abs(measured.value / native.value - 1) <= _NATIVE_TOLERANCE
    ):
        return ()
    return (
        f"in its framework's own form it takes {native.value:.3g} ms; as the IR lowers it, "
        f"{measured.value / native.value:.2f} times that",
    )


def _session_notes(
    whole: Measurement | None, bricks: Sequence[Measurement], request: Request
) -> tuple[str, ...]:
    """A note if a model and its bricks were not timed side by side."""
    if whole is None:
        return ()
    sessions = {taken.session for taken in whole.observations}
    apart = sum(sessions.isdisjoint(t.session for t in brick.observations) for brick in bricks)
    rounds = set(rounds_of(whole))
    others = sum(rounds.isdisjoint(rounds_of(brick)) for brick in bricks)
    drift = "drift of the machine is part of the normalized latency"
    if apart:
        return (
            f"{apart} of {len(bricks)} bricks were timed in another session than the whole model: "
            f"{drift} ({argument('force')} times all anew)",
        )
    if others and request.protocol.interleaved:
        return (
            f"{others} of {len(bricks)} bricks were timed before or after the whole model, beside "
            f"which they do not fit into memory: {drift}",
        )
    return ()


def _benchmarking(
    models: Sequence[ModelResult], plan: Plan, latencies: Mapping[str, Figure]
) -> Benchmarking | None:
    compared = [m for m in models if m.normalized is not None]
    bricks = dict.fromkeys(
        timed
        for m in compared
        for signature in m.cut.counts
        for timed in _timed(signature, plan, latencies)
    )
    if not bricks:
        return None
    return Benchmarking(
        # All models count, including models that differ only in their weights.
        models_s=sum(m.measured.value for m in compared if m.measured) / 1e3,
        bricks_s=sum(latencies[signature].value for signature in bricks) / 1e3,
    )
