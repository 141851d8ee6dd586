"""Assembles the results of a run from its measurements, and one result from several."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain
from operator import or_
from typing import Protocol, Self, TypeVar

from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.compose import Estimate, Parallel, Plan
from dlbricks_core.compose.options import find_composer
from dlbricks_core.estimation.model_result import Compared, ModelResult, PartResult
from dlbricks_core.estimation.results import AdaptiveRun, Benchmarking, BrickResult, RunResult
from dlbricks_core.facts import Note
from dlbricks_core.facts.note import note, warning
from dlbricks_core.figures.figure import Figure, Measured, Origin, interval
from dlbricks_core.figures.predicted import Placed
from dlbricks_core.figures.protocols import HOT, between_hours
from dlbricks_core.figures.statistics import Disturbance, disturbance_notes, warnings_for
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.ledger import Ledger, Networks
from dlbricks_core.measure.metric import Metric
from dlbricks_core.measure.request import Request

ValueT = TypeVar("ValueT")

_NATIVE_TOLERANCE = 0.03
"""Relative difference from the framework's own form above which a note reports it."""

_CALIBRATED_ON = (note("calibrated-on-it"),)

NOT_MEASURED = "not measured"
"""Reason why a brick has no figure, if nothing failed."""

_IN_PLACE = (note("timed-in-place"),)

_LITTLE = 0.01
"""Share of a model's latency up to which scatter and disturbances of a brick are ignored."""

Figures = Mapping[str, Figure]
"""Figures of networks, by signature."""


def assemble(
    request: Request,
    cutting: Cutting,
    ledger: Ledger,
    predicted_parts: Sequence[Figures] = (),
    *,
    predictor: str = "",
    adaptive: AdaptiveRun | None = None,
    peak_bytes: int | None = None,
) -> RunResult:
    """The result for models and bricks, from figures and failures.

    Args:
        request: How networks were measured.
        cutting: The models, their bricks, and the plan for the bricks' figures.
        ledger: Figures and failures.
        predicted_parts: For each part of the quantity, figures of the bricks that are predicted.
        predictor: Name of the predictor; empty for none.
        adaptive: Progress of adaptive measuring; ``None`` for none.
        peak_bytes: Peak memory of the run; ``None`` where nothing ran.
    """
    assembly = Assembly.of(request, cutting, ledger, predicted_parts)
    return assembly.result(predictor=predictor, adaptive=adaptive, peak_bytes=peak_bytes)


def whole_networks(request: Request, ledger: Ledger) -> Networks:
    """Whole models: measured as their users run them if possible, otherwise as lowered."""
    lowered = ledger.networks("model", request.quantity)
    if request.protocol is not HOT:
        return lowered
    return ledger.networks("native", request.quantity).over(lowered)


def apart_of(ledger: Ledger, request: Request) -> float:
    """Standard deviation of the relative difference of a latency from one hour to another.

    Args:
        ledger: Measurements on the machine.
        request: The request that they answer.
    """
    hours = between_hours(
        ledger.measurements.values(),
        request.protocol.statistic,
        virtual=request.target.hypervisor is not None,
    )
    return max(hours, ledger.apart)


def why_nothing(figure: Figure, request: Request) -> str:
    """Reason why the samples of a figure are useless."""
    if figure.disturbance.leaves_nothing:
        used = figure.disturbance.load
        fewer = ", or on one thread, which bears more" if request.setup.threads > 1 else ""
        cure = f"measure again on a quieter machine{fewer}"
        return f"{NOT_MEASURED}: other programs used {used:.0%} of the CPUs meanwhile ({cure})"
    low, high = figure.scatter
    unit = request.quantity.unit
    return f"{NOT_MEASURED}: its runs scatter from {max(low, 0.0):.3g} to {high:.3g} {unit}"


def _measure_nothing(figures: Figures, cuts: Sequence[CutModel]) -> Figures:
    """Figures whose samples scatter too much to be used.

    Figures with a negligible share in every model are left out.

    Args:
        figures: Figures of bricks, and of whole models in place of them.
        cuts: The models; empty for bricks without models.
    """
    scattered = {s: each for s, each in figures.items() if each.measures_nothing}
    if not cuts or not scattered:
        return scattered
    parts = [part for cut in cuts for part in _parts(cut, figures).items()]
    return {s: scattered[s] for s, share in parts if s in scattered and share > _LITTLE}


def _parts(cut: CutModel, figures: Figures) -> Mapping[str, float]:
    """Share of each known figure in the latency of a model."""
    if _whole(cut, figures) is not None:
        return {cut.whole.signature: 1.0}
    known = {s: n * figures[s].interval[1] for s, n in cut.counts.items() if s in figures}
    total = sum(known.values())
    return {s: each / total if total else 0.0 for s, each in known.items()}


def _whole(cut: CutModel, figures: Figures) -> Figure | None:
    """Figure of a whole model that replaces its bricks; ``None`` if there is none.

    A model with a single brick has such a figure if it ran as a whole model.
    """
    whole = cut.whole.signature
    figure = figures.get(whole)
    measured = figure.measured if isinstance(figure, Placed) else None
    ran = isinstance(measured, Measured) and measured.protocol is HOT
    return figure if ran or whole not in cut.counts else None


class _Estimator(Protocol):
    """Composes estimates: a composer, or a metric for its quantity."""

    def compose(self, cut: CutModel, latencies: Figures, /) -> Estimate:
        """Estimate of a model from figures of its bricks."""


@dataclass(frozen=True)
class _ByMetric:
    """Composes a quantity with its metric.

    Attributes:
        metric: The metric.
        parts: For each part of the quantity, figures of bricks.
    """

    metric: Metric
    parts: Sequence[Figures]

    def compose(self, cut: CutModel, figures: Figures, /) -> Estimate:
        whole = _whole(cut, figures)
        if whole is None:
            return self.metric.estimate(cut, [figures, *self.parts])
        ends = interval(whole.plausible, whole.value)
        return Estimate(whole.value, ends, (), ends, whole.plausible)


@dataclass(frozen=True)
class Assembly:
    """Figures and failures, from which estimates are composed.

    Attributes:
        request: How networks were measured.
        cutting: The models, their bricks, and the plan of their figures.
        ledger: Figures and failures.
        useless: Reason for each brick that cannot be measured, or whose samples are useless.
        latencies: Figures of bricks, and of whole models in place of them.
        parts: For each part of the quantity, figures of bricks.
        shown: Figures of bricks that no estimate uses, because their models were timed whole.
    """

    request: Request
    cutting: Cutting
    ledger: Ledger
    useless: Mapping[str, str]
    latencies: Figures
    parts: Sequence[Figures]
    shown: Figures = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        request: Request,
        cutting: Cutting,
        ledger: Ledger,
        predicted_parts: Sequence[Figures] = (),
    ) -> Self:
        """Usable figures of a ledger, and reasons for the others; arguments as for `assemble`."""
        every, cuts = cutting.brickset.bricks, cutting.brickset.models
        quantities = request.quantity, *(request.metric.parts if request.metric else ())
        views = [ledger.networks("brick", each) for each in quantities]
        complete = [s for s in every if all(s in view.figures for view in views)]
        known, *measured_parts = ({s: view.figures[s] for s in complete} for view in views)
        scattered = {s: each for s, each in known.items() if each.measures_nothing}
        reasons = {s: brick.opaque for s, brick in every.items() if brick.opaque}
        reasons = {s: why_nothing(each, request) for s, each in scattered.items()} | reasons
        figures = cutting.plan.figures({s: each for s, each in known.items() if s not in scattered})
        useless = _measure_nothing(figures, cuts)
        stood_for = {cut.whole.signature: cut.counts for cut in cuts}
        for signature, each in useless.items():
            for part in (signature, *stood_for.get(signature, ())):
                reasons.setdefault(part, why_nothing(each, request))
        predicted = predicted_parts or [{} for _ in measured_parts]
        return cls(
            request,
            cutting,
            ledger,
            reasons,
            {s: each for s, each in figures.items() if s not in useless},
            [{**new, **own} for new, own in zip(predicted, measured_parts, strict=True)],
        )

    def result(
        self,
        *,
        first: Iterable[Note] = (),
        predictor: str = "",
        adaptive: AdaptiveRun | None = None,
        peak_bytes: int | None = None,
    ) -> RunResult:
        """The result for all models and bricks.

        Args:
            first: Notes before those of the ledger.
            predictor: Name of the predictor; empty for none.
            adaptive: Progress of adaptive measuring; ``None`` for none.
            peak_bytes: Peak memory of the run; ``None`` where nothing ran.
        """
        counts: Counter[str] = Counter()
        for cut in self.cutting.brickset.models:
            counts.update(cut.counts)
        return RunResult(
            request=self.request,
            cutting=self.cutting,
            models=self.models,
            bricks=[
                # The occurrences of bricks in a folder are unknown.
                self._brick(brick, counts.get(signature, 1))
                for signature, brick in self.cutting.brickset.bricks.items()
            ],
            benchmarking=None if self.request.metric else self._benchmarking(),
            ledger=self.ledger.noting(first=first),
            predictor=predictor,
            adaptive=adaptive,
            peak_bytes=peak_bytes,
        )

    @cached_property
    def models(self) -> Sequence[ModelResult]:
        """Results of the models, in their order."""
        calibration, request = self.cutting.calibration, self.request
        seen = calibration.signatures if calibration else frozenset()
        apart = 0.0
        default: _Estimator
        calibrated: _Estimator
        if request.metric:
            default = calibrated = _ByMetric(request.metric, self.parts)
        else:
            default = calibrated = composer = find_composer(self.cutting.options.composer)
            if calibration:
                calibrated = composer.calibrated(calibration.values)
            apart = apart_of(self.ledger, request)
        return [
            # A model's own measurement must not influence its estimate through a calibration.
            self._model(cut, default, apart, _CALIBRATED_ON)
            if cut.whole.signature in seen
            else self._model(cut, calibrated, apart)
            for cut in self.cutting.brickset.models
        ]

    def _brick(self, brick: Brick, occurrences: int) -> BrickResult:
        signature, quantity = brick.signature, self.request.quantity
        latency = self.latencies.get(signature) or self.shown.get(signature)
        if latency is None:
            reason = self._bricks.failures.get(signature, NOT_MEASURED)
            return BrickResult(brick, occurrences, None, failure=reason, quantity=quantity)
        notes: list[Note] = []
        if (measured := self._bricks.figures.get(signature)) is not None:
            # A brick may have samples although the plan predicts it.
            has_scatter = latency.samples and not self.request.metric
            notes += warnings_for(latency.samples) if has_scatter else ()
            notes += (warning("timed-while-disturbed", disturbance=f) for f in measured.flags)
        origin = self._brick_origin(latency, signature)
        return BrickResult(
            brick, occurrences, latency, warnings=notes, origin=origin, quantity=quantity
        )

    def _model(
        self, cut: CutModel, composer: _Estimator, apart: float, notes: tuple[Note, ...] = ()
    ) -> ModelResult:
        """Result for one model.

        Args:
            cut: The model.
            composer: Composes the estimate.
            apart: Relative difference of latencies from one hour to another; 0 for other
                quantities.
            notes: Notes for a composed estimate.
        """
        request, latencies, whole = self.request, self.latencies, cut.whole.signature
        standing = _whole(cut, latencies)
        in_place = standing is not None and standing.origin != "predicted"
        timed = {signature: self._timed(signature) for signature in cut.counts}
        measured: Measured | None = self._wholes.figures.get(whole)
        ran, failure = measured, self._wholes.failures.get(whole, "")
        useless = ""
        if measured is not None and measured.measures_nothing:
            failure = useless = why_nothing(measured, request)
            measured = None
        reasons = {
            signature: next(
                (self._bricks.failures[s] for s in several if s in self._bricks.failures),
                # The profile of a run that measures nothing tells nothing of its bricks.
                useless or NOT_MEASURED,
            )
            for signature, several in timed.items()
            if signature not in latencies and not standing
        }
        hot = request.protocol is HOT
        native = None if hot else self._natives.get(whole)
        behind = [latencies[s] for s, share in _parts(cut, latencies).items() if share > _LITTLE]
        disturbance = Disturbance.worst(
            [each.disturbance for each in filter(None, (*behind, measured))]
        )
        origin = self._origins(cut)
        estimate = composer.compose(cut, latencies)
        return ModelResult(
            cut=cut,
            estimate=estimate.in_any_hour(apart, measured=not origin.keys() <= {"predicted"}),
            parallel=(
                # The estimate of a model that was timed whole is not composed.
                Estimate(None, None)
                if request.metric or in_place
                else Parallel().compose(cut, latencies)
            ),
            measured=measured,
            missing=reasons,
            unsupported={
                s: why
                for s, why in reasons.items()
                if not self._bricks.unsupported.isdisjoint(timed[s])
            },
            # If a brick is missing, the whole model fails for the same reason.
            failure="" if reasons else failure,
            native=native,
            disturbance=disturbance,
            is_measurement=in_place,
            notes=(
                *cut.notes,
                *(_IN_PLACE if in_place and not hot else notes),
                *(() if in_place or hot else self._session_notes(ran, timed)),
                *_native_notes(measured, native),
                *disturbance_notes(disturbance, stored=not self.ledger.anew),
            ),
            origin=origin,
            composer="" if request.metric else self.cutting.options.composer,
            parts=[] if standing else self._part_results(cut),
            memory=self.cutting.footprints.get(whole),
        )

    def _origins(self, cut: CutModel) -> Mapping[Origin, float]:
        """Shares of the sum over a model's known bricks, by the origin of their figures.

        If a figure of the whole model replaces its bricks, it is the whole sum.
        """
        if standing := _whole(cut, self.latencies):
            return {_origin(standing, cut.whole.signature, self._wholes): 1.0}
        known = {s: self.latencies[s] for s in cut.counts if s in self.latencies}
        # If no brick takes longer than a call of the timer, all bricks have the same weight.
        alike = not any(figure.own for figure in known.values())
        sums: dict[Origin, float] = {}
        for signature, figure in known.items():
            origin = self._brick_origin(figure, signature)
            part = cut.counts[signature] * (1.0 if alike else figure.own)
            sums[origin] = sums.get(origin, 0.0) + part
        total = sum(sums.values())
        return {origin: each / total for origin, each in sums.items()} if total else {}

    def _part_results(self, cut: CutModel) -> list[PartResult]:
        """Results for the parts of a quantity."""
        metric = self.request.metric
        if metric is None:
            return []
        return [
            PartResult(part, Compared(estimate, whole.figures.get(cut.whole.signature)))
            for (part, estimate), whole in zip(
                metric.estimate_parts(cut, self.parts).items(), self._part_wholes, strict=True
            )
        ]

    @cached_property
    def _bricks(self) -> Networks:
        found = self.ledger.networks("brick", self.request.quantity)
        return replace(found, failures={**self.useless, **found.failures})

    @cached_property
    def _wholes(self) -> Networks:
        return whole_networks(self.request, self.ledger)

    @cached_property
    def _natives(self) -> Mapping[str, Measured]:
        return self.ledger.networks("native", self.request.quantity).figures

    @cached_property
    def _part_wholes(self) -> Sequence[Networks]:
        """Whole models, for each part of the quantity."""
        parts = self.request.metric.parts if self.request.metric else ()
        return [self.ledger.networks("model", part) for part in parts]

    def _timed(self, signature: str) -> Sequence[str]:
        """Signatures of the networks behind a brick's figure: the brick itself or others."""
        latency = self.latencies.get(signature)
        return latency.networks(signature) if latency else self.cutting.plan.sources(signature)

    def _session_notes(
        self, whole: Measured | None, timed: Mapping[str, Sequence[str]]
    ) -> tuple[Note, ...]:
        """A note if a model and its bricks were not timed side by side."""
        if whole is None:
            return ()
        signatures = dict.fromkeys(chain.from_iterable(timed.values()))
        rounds = [
            set(self._bricks.figures[s].rounds) for s in signatures if s in self._bricks.figures
        ]
        sessions = {session for session, _ in whole.rounds}
        apart = sum(sessions.isdisjoint(session for session, _ in each) for each in rounds)
        if apart:
            return (note("bricks-in-another-session", bricks=apart, of_bricks=len(rounds)),)
        others = sum(each.isdisjoint(whole.rounds) for each in rounds)
        if others and self.request.protocol.interleaved:
            return (note("bricks-in-other-rounds", bricks=others, of_bricks=len(rounds)),)
        return ()

    def _brick_origin(self, figure: Figure, signature: str) -> Origin:
        """Origin of a brick's figure, which may be that of a model with no other brick."""
        alone = signature in self._wholes.figures and signature not in self._bricks.figures
        return _origin(figure, signature, self._wholes if alone else self._bricks)

    def _benchmarking(self) -> Benchmarking | None:
        compared = [m for m in self.models if m.normalized is not None]
        bricks = {timed for m in compared for s in m.cut.counts for timed in self._timed(s)}
        if not bricks:
            return None
        return Benchmarking(
            # All models count, including models that differ only in their weights.
            models_s=sum(m.measured.value for m in compared if m.measured) / 1e3,
            bricks_s=sum(self.latencies[signature].value for signature in bricks) / 1e3,
        )


def _origin(figure: Figure, signature: str, networks: Networks) -> Origin:
    """Origin of a figure: measured in this run, or stored before."""
    stored = figure.origin == "measured" and signature not in networks.anew
    return "stored" if stored else figure.origin


def _native_notes(measured: Figure | None, native: Figure | None) -> tuple[Note, ...]:
    """A note if export and lowering changed the latency of a model."""
    if measured is None or native is None:
        return ()
    ratio = measured.value / native.value
    if abs(ratio - 1) <= _NATIVE_TOLERANCE:
        return ()
    return (note("own-form-differs", native_ms=native.value, ratio=ratio),)


# One result for models that were estimated in several ways.


def joined(parts: Mapping[tuple[int, ...], RunResult]) -> RunResult:
    """One result for all models, each with the estimate of its part.

    Settings are those of the first part.

    Args:
        parts: Results under one request, by the positions of their models in the joint result.
    """
    results = list(parts.values())
    first = results[0]
    if len(results) == 1:
        return first
    places = sorted(
        (place, i, part) for part, own in enumerate(parts) for i, place in enumerate(own)
    )

    def in_order(of_parts: Iterable[Sequence[ValueT]]) -> list[ValueT]:
        every = list(of_parts)
        return [every[part][i] for _, i, part in places]

    costs = [each.benchmarking for each in results if each.benchmarking]
    models_s, bricks_s = sum(e.models_s for e in costs), sum(e.bricks_s for e in costs)
    return replace(
        first,
        cutting=_joint_cutting([each.cutting for each in results], in_order),
        models=in_order(each.models for each in results),
        bricks=_joint_bricks(results),
        benchmarking=Benchmarking(models_s, bricks_s) if costs else None,
        ledger=reduce(or_, (each.ledger for each in results)),
        adaptive=_joint_progress(results, in_order(map(_half_widths, results))),
        peak_bytes=max((e.peak_bytes for e in results if e.peak_bytes is not None), default=None),
    )


def _joint_cutting(
    cuttings: Sequence[Cutting],
    in_order: Callable[[Iterable[Sequence[CutModel]]], list[CutModel]],
) -> Cutting:
    """Cutting of all models.

    Args:
        cuttings: Cuttings, each of some of the models.
        in_order: Brings the models of all cuttings into their order.
    """
    first = cuttings[0]
    return replace(
        first,
        brickset=replace(
            first.brickset,
            bricks={s: each for cutting in cuttings for s, each in cutting.brickset.bricks.items()},
            models=in_order(each.brickset.models for each in cuttings),
        ),
        plan=Plan(
            {s: brick for each in cuttings for s, brick in each.plan.timed.items()},
            {s: recipes for each in cuttings for s, recipes in each.plan.recipes.items()},
        ),
        seconds=sum(each.seconds for each in cuttings),
        footprints={s: found for each in cuttings for s, found in each.footprints.items()},
    )


def _joint_bricks(results: Sequence[RunResult]) -> list[BrickResult]:
    """Results for all bricks, without duplicates."""
    found: dict[str, BrickResult] = {}
    for each in (brick for result in results for brick in result.bricks):
        before = found.get(each.brick.signature)
        number = each.occurrences + (before.occurrences if before else 0)
        found[each.brick.signature] = replace(before or each, occurrences=number)
    return list(found.values())


def _half_widths(result: RunResult) -> Sequence[float]:
    """Half-width of each model's interval. Adaptive measuring knows none of a partial estimate."""
    estimates = [each.estimate for each in result.models]
    if not result.adaptive:
        return [each.half_width_now for each in estimates]
    halves = zip(estimates, result.adaptive.half_widths, strict=True)
    return [math.inf if each.partial else half for each, half in halves]


def _joint_progress(
    results: Sequence[RunResult], half_widths: Sequence[float]
) -> AdaptiveRun | None:
    """Progress of all parts together, without the precision that more time would reach."""
    runs = [each.adaptive for each in results if each.adaptive is not None]
    if not runs:
        return None
    ran = [each.seconds for each in runs if each.seconds is not None]
    plain = [each.plain_s for each in runs if each.plain_s is not None]
    measured = [[b for b in e.bricks if b.origin not in (None, "predicted")] for e in results]
    return replace(
        runs[0],
        half_widths=tuple(half_widths),
        timed=sum(
            each.adaptive.timed if each.adaptive else len(own)
            for each, own in zip(results, measured, strict=True)
        ),
        wholes=sum(each.wholes for each in runs),
        importing_s=sum(each.importing_s for each in runs),
        offers=(),
        seconds=sum(ran) if ran else None,
        waited_s=sum(each.waited_s for each in runs),
        plain_s=sum(plain) if len(plain) == len(runs) else None,
    )
