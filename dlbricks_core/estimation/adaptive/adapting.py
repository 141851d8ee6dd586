"""State of a request: figures of its models so far, and the runs that add to them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.learned import Learned
from dlbricks_core.compose.options import LEARNED_COMPOSER, find_composer
from dlbricks_core.estimation.adaptive.ahead import Ahead
from dlbricks_core.estimation.adaptive.coverage import RunCosts, chosen
from dlbricks_core.estimation.adaptive.drift import scatter_within
from dlbricks_core.estimation.adaptive.unknown import Unknown
from dlbricks_core.estimation.adaptive.wholes import WholeRuns
from dlbricks_core.estimation.assemble import Assembly
from dlbricks_core.estimation.defaults import PREDICTOR
from dlbricks_core.estimation.results import AdaptiveRun, ModelResult, RunResult
from dlbricks_core.facts import Question
from dlbricks_core.facts.note import note
from dlbricks_core.figures.figure import (
    Figure,
    InPlace,
    in_place_errors,
)
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.machine.load import measurement_lock
from dlbricks_core.measure.costs import QUICK_START_S
from dlbricks_core.measure.cutting import Cutting, gigabytes
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.targets import not_within
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import PEAKS

PLAIN_RUNS = 9
"""Runs of each model in a plain script after the first run, which is part of loading. The script
warms up with two runs and times eight (benchmarks/plain)."""

_MOST_MEMORY = 0.6
"""Maximum share of the free memory for a whole model; larger models are estimated from bricks."""

_MOST_DRAWN_BYTES = 2**30
"""Maximum bytes of weights that are drawn for a model without a file. Its bricks take a fraction of
these bytes, because blocks of large models repeat."""

_FEW_MODELS = 3
"""Maximum number of models in a request whose bricks are always profiled, even in a separate
run."""

_WORTH_PROFILING = 0.1
"""Least share of another model's latency in a model's bricks for which it is profiled in runs of
their own. In less of a latency, errors of a single profiled run do not matter."""

_PREDICTABLE = 0.15
"""Smallest half-width of predictions from reference data (docs/results/predicting.md)."""

_LONG_RUN_MS = 100.0
"""Milliseconds of loading and running a model from which its prediction may be worth its time."""

_PREDICTING_MS = 1500.0
"""Milliseconds of such models together from which predictions are tried first. They take half as
long for forty models, and about half of them turn out precise enough at ±20%."""

_WORTH_RATES_MS = 20_000.0
"""Milliseconds of loading and running models from which the rates of an unknown system are timed
first. They take 2 to 3 seconds (research/2026-11-30-probes.md)."""

_UNKNOWN_ERROR = 0.4
"""Relative error of predictions of bricks that no model has run, for the choice of models to run.
Estimates have the predictor's own errors."""


_MOSTLY = 0.85
"""Share of a model's latency in profiled bricks from which rough figures of the others suffice."""


class Adapting:
    """State of one request: figures so far, and the choice of the next runs.

    Args:
        cutting: The models and their bricks.
        request: How bricks are timed alone, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        opened: Closes the workers.
        predictor: Name of the predictor.
        compares: Whether estimates are compared. They then use no model that runs only for the
            comparison, or ran before.
        session: Identifier of the session; ``None`` for a new one.
        ahead: Process that was begun before; ``None`` if there is none.
    """

    def __init__(
        self,
        cutting: Cutting,
        request: Request,
        store: ResultStore,
        observer: Observer,
        opened: ExitStack,
        predictor: str,
        *,
        compares: bool,
        session: str | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self._cutting = cutting
        self._cuts = cutting.brickset.models
        self._request = request
        self._store = store
        self._observer = observer
        self._predictor = predictor
        self._precision = request.precision or 1.0
        self._burst = request.burst
        self._runs = WholeRuns(request.hot, store, observer, opened, session, ahead)
        self._runs.look_up(self._cuts)
        self._costs = RunCosts(self._cuts, self._burst.fewest + self._burst.profiled + 1)
        bricks = cutting.brickset.bricks
        self._unknown = Unknown(bricks, self._costs, request, store, observer, predictor)
        self._reason = note("no-run-narrows")
        again = request.force or request.retry_failed
        refused = {} if again else store.refused(request.setup, request.fingerprint)
        self._known_refusals = refused.keys()
        every = {cut.whole.signature for cut in self._cuts}
        self._excluded = every if compares else set()
        self._compares = compares

    def run_most_informative(self, end: float) -> list[int]:
        """Runs models until estimates are precise, or time is over.

        A model with denormal weights runs in any case: bricks with usual ones tell nothing of it.

        Args:
            end: When the time is over, in seconds of ``monotonic``.

        Returns:
            Positions of models of which neither their own runs nor those of others tell.
        """
        lacking = [i for i, cut in enumerate(self._cuts) if not self._precise(cut)]
        slowed = [i for i in lacking if self._cuts[i].model.is_slowed and self._able(self._cuts[i])]
        self._run(slowed, len(slowed), end)
        lacking = self._not_predictable([i for i in lacking if i not in slowed])
        able = [i for i in lacking if self._able(self._cuts[i])]
        known, enough = self._bricks.keys(), _enough(self._precision)
        left_ms = 1e3 * (end - monotonic())
        running = self._costs.running
        if min(left_ms, sum(running[i] for i in able)) >= _WORTH_RATES_MS:
            self._time_rates()
        self._run(chosen(self._costs, lacking, able, known, enough), len(able), end)
        lacking = [i for i in lacking if not self._precise(self._cuts[i])]
        rest = [i for i in self._imprecise(lacking) if self._able(self._cuts[i])]
        self._run(rest, len(rest), end)
        return [i for i in lacking if self._is_left(self._cuts[i])]

    def _time_rates(self) -> None:
        """Times the rates of an unknown system, on which this estimate and later ones rest."""
        if self._unknown.system_is_known:
            return
        # Few requests need this code, and every command waits for what it imports.
        from dlbricks_core.estimation.rates import time_rates

        ledger = time_rates(self._request, self._store, self._observer)
        seconds = ledger.effort.seconds["brick"]
        timed = note("rates-timed", networks=len(ledger.figures), seconds=seconds)
        self._runs.remark(timed)

    def _not_predictable(self, positions: Sequence[int]) -> list[int]:
        """Positions of models whose predictions are too rough, or were not tried.

        Predicting takes time, so it is tried only for models whose runs take longer, or that
        cannot run.
        """
        if self._precision < _PREDICTABLE:
            return list(positions)
        able = [i for i in positions if self._able(self._cuts[i])]
        running = self._costs.running
        tried = [i for i in able if running[i] > _LONG_RUN_MS]
        if sum(running[i] for i in tried) < _PREDICTING_MS:
            tried = []
        tried += set(positions) - set(able)
        if not tried or not self._unknown.system_is_known:
            return list(positions)
        known = {*tried} - {*self._imprecise(tried)}
        return [i for i in positions if i not in known]

    def _is_left(self, cut: CutModel) -> bool:
        """Whether the latency can come neither from a run of the model nor from runs of others."""
        covered = cut.counts.keys() <= self._bricks.keys()
        return self._refused(cut) or not (self._able(cut) or covered)

    def known_by_runs(self, share: float) -> list[int]:
        """Positions of models that ran, or have enough of their latency in bricks that ran."""
        known = self._bricks.keys()
        return [
            i
            for i, cut in enumerate(self._cuts)
            if self._figure(cut) is not None
            or (self._costs.share(i, known) >= share and not self._refused(cut))
        ]

    def result(self, positions: Sequence[int], begin: float | None = None) -> RunResult:
        """The result for some models from the figures so far, beside their latencies if compared.

        Args:
            positions: Positions of the models.
            begin: When the run began, in seconds of ``monotonic``; ``None`` if nothing ran.
        """
        seconds = None if begin is None else monotonic() - begin
        cutting = self._cutting.only(positions)
        cuts = cutting.brickset.models
        figures = self._figures(cuts)
        precise = [self._precise(cut) for cut in cuts]
        progress = AdaptiveRun(
            (),
            timed=len(cutting.brickset.bricks.keys() & self._bricks.keys()),
            wholes=sum(self._figure(cut) is not None for cut in cuts),
            importing_s=self._runs.importing_s,
            offers=(),
            seconds=seconds,
            waited_s=self._runs.waited_s,
        )
        # Remarks on runs for comparison do not concern the estimates.
        notes = self._runs.ledger.notes
        if self._compares:
            self._run_others()
            progress = replace(progress, plain_s=self._plain_s())
        found = self._assembly(cutting, figures, replace(self._runs.warned_ledger, notes=notes))
        halves = tuple(each.estimate.half_width for each in found.models)
        lacking = [
            (half, cut.model.name)
            for half, cut, is_precise in zip(halves, cuts, precise, strict=True)
            if half > self._precision and not is_precise
        ]
        is_open = self._request.precision is not None
        return found.result(
            first=not_within(self._precision, self._reason, lacking) if is_open else (),
            predictor=self._predictor,
            adaptive=replace(progress, half_widths=halves),
            peak_bytes=None if begin is None else PEAKS.since(begin),
        )

    @property
    def able(self) -> list[int]:
        """Positions of the models that may run as a whole."""
        return [i for i, cut in enumerate(self._cuts) if self._may_run(cut)]

    def run_one(self, position: int) -> None:
        """Runs a model with a profile of its bricks, unless it has run often enough before."""
        cut = self._cuts[position]
        figure = self._figure(cut)
        if figure is None or len(figure.samples) < self._burst.fewest_samples:
            self._runs.run(cut, self._burst.for_harvest())

    def left_out(self) -> RunResult:
        """Estimates of each model from the runs of all others, with its own latency."""
        shared = self._assembly(self._cutting, self._bricks).result(predictor=self._predictor)
        models: list[ModelResult] = []
        for i, cut in enumerate(self._cuts):
            own = self._cutting.only([i])
            figures = self._figures([cut], without={cut.whole.signature})
            models += self._assembly(own, figures, self._named(own, figures)).models
        return replace(shared, models=models)

    def by_parts(self) -> RunResult:
        """Latencies of all models that ran, with the sums of their own profiled bricks.

        A model without a profile has no parts; its whole latency is used.
        """
        bricks = self._bricks
        figures: dict[str, Figure] = dict(bricks)
        for cut in self._cuts:
            whole = self._figure(cut)
            if whole is not None and not cut.counts.keys() <= bricks.keys():
                figures[cut.whole.signature] = self._runs.drifting[cut.whole.signature]
        found = self._assembly(self._cutting, figures, self._named(self._cutting, figures))
        return found.result(predictor=self._predictor)

    def _assembly(
        self, cutting: Cutting, figures: Mapping[str, Figure], ledger: Ledger | None = None
    ) -> Assembly:
        """Figures of bricks and whole models, from which estimates are composed.

        Args:
            cutting: The models.
            figures: Figures by signature.
            ledger: Measurements and failures; ``None`` for all so far.
        """
        planned = replace(cutting, plan=cutting.plan.believing(figures, timed=()))
        return Assembly.of(self._request.hot, planned, ledger or self._runs.warned_ledger)

    def _run_others(self) -> None:
        """Runs the models that have not run, which estimates do without, for comparison."""
        figures = self._runs.figures
        rest = [i for i in self.able if self._cuts[i].whole.signature not in figures]
        self._run(rest, len(rest), math.inf)

    def _plain_s(self) -> float | None:
        """Seconds of a plain script to load each model and to run it."""
        total = 0.0
        for cut in self._cuts:
            measured = self._runs.ledger.measurements.get(self._runs.key(cut))
            if measured is None:
                return None
            loading = max(each.loading_s or 0.0 for each in measured.observations)
            total += loading + PLAIN_RUNS * self._runs.figures[cut.whole.signature].value / 1e3
        return total

    @property
    def _bricks(self) -> Mapping[str, InPlace]:
        """Figures of bricks in profiles of running models."""
        return self._runs.bricks(self._excluded)

    def _run(self, order: Iterable[int], most: int, end: float) -> None:
        """Runs models until time is over.

        Args:
            order: Their positions; the next one is asked for once the one before has run.
            most: Maximum number of models.
            end: When the time is over, in seconds of ``monotonic``.
        """
        if not most:
            return
        self._observer.stage(f"Running up to {most} models", most)
        start_s = 0.0 if self._runs.importing_s else QUICK_START_S
        for i in order:
            if monotonic() - self._runs.waited_s + start_s > end:
                self._reason = note("budget-ended", budget_s=self._request.budget_s)
                return
            start_s = 0.0
            cut = self._cuts[i]
            self._excluded.discard(cut.whole.signature)
            if not self._precise(cut):
                harvest = self._shares_bricks(cut)
                burst = self._burst.for_harvest() if harvest else self._burst
                self._runs.run(cut, burst, harvest=harvest)
                self._learn_cost(i)
            self._observer.advance("model")

    def _learn_cost(self, position: int) -> None:
        cut = self._cuts[position]
        measured = self._runs.ledger.measurements.get(self._runs.key(cut))
        if measured is not None:
            loading_s = measured.observations[-1].loading_s or 0.0
            self._costs.learn(
                position, loading_s * 1e3, self._runs.figures[cut.whole.signature].value
            )

    def _shares_bricks(self, cut: CutModel) -> bool:
        """Whether bricks of a model that nothing has shown matter to another that has not run.

        For few models, bricks are profiled for later requests anyway, because that takes little
        time.
        """
        if len(self._cuts) <= _FEW_MODELS:
            return True
        new = cut.counts.keys() - self._bricks.keys()
        others = (
            i
            for i, each in enumerate(self._cuts)
            if each is not cut and not new.isdisjoint(each.counts) and self._figure(each) is None
        )
        return any(self._costs.share(i, new) >= _WORTH_PROFILING for i in others)

    def _able(self, cut: CutModel) -> bool:
        """Whether a whole model may run for an estimate, or runs in any case for comparison."""
        return self._may_run(cut) and (self._compares or self._is_modest(cut))

    def _may_run(self, cut: CutModel) -> bool:
        """Whether a whole model may run here, without taking the machine's memory."""
        failed = self._runs.key(cut) in self._runs.ledger.failures
        return not (failed or self._why_not(cut))

    def _is_modest(self, cut: CutModel) -> bool:
        footprint = self._cutting.footprints.get(cut.whole.signature)
        return footprint is None or footprint.is_modest

    def _why_not(self, cut: CutModel) -> str:
        """Reason why a whole model never runs; empty if it may run."""
        footprint = self._cutting.footprints.get(cut.whole.signature)
        drawn = self._runs.key(cut).subject.kind != "native"
        if drawn and cut.model.weight_bytes > _MOST_DRAWN_BYTES:
            return f"{gigabytes(cut.model.weight_bytes)} GB of weights would be drawn"
        if footprint is not None and not footprint.fits:
            return f"it does not fit: {footprint}"
        if footprint is not None and (
            footprint.needed_bytes > _MOST_MEMORY * footprint.available_bytes
        ):
            return f"a whole model runs in {_MOST_MEMORY:.0%} of the free memory, and {footprint}"
        if self._refused(cut):
            return "a part of it is not supported, or unknown"
        return ""

    def _refused(self, cut: CutModel) -> bool:
        """Whether the store records a refusal of a part of a model, or a layer is opaque.

        Timing its bricks shows the unsupported part.
        """
        parts = {cut.whole.signature, *cut.counts, *cut.layer_signatures}
        opaque = any(layer.opaque for layer in cut.model.layers)
        return opaque or not parts.isdisjoint(self._known_refusals)

    def _figure(self, cut: CutModel, without: Collection[str] = ()) -> Figure | None:
        """Figure of a whole model that estimates may use; arguments as for :meth:`_figures`."""
        whole = cut.whole.signature
        left_out = whole in self._excluded or whole in without
        figure = None if left_out else self._runs.figures.get(whole)
        return None if figure is None or figure.measures_nothing else figure

    def _precise(self, cut: CutModel) -> bool:
        """Whether a model has run to the requested precision."""
        figure = self._figure(cut)
        if figure is None or len(figure.samples) < self._burst.fewest_samples:
            return False
        return figure.relative_scatter <= scatter_within(self._precision)

    def _imprecise(self, positions: Sequence[int]) -> list[int]:
        """Positions of models whose estimates are not precise enough."""
        positions = [i for i in positions if not self._precise(self._cuts[i])]
        cuts = [self._cuts[i] for i in positions if not self._refused(self._cuts[i])]
        figures = self._figures(cuts) if cuts else {}
        composer = find_composer(LEARNED_COMPOSER)
        estimates = {i: composer.compose(self._cuts[i], figures) for i in positions}
        return [i for i, each in estimates.items() if each.half_width > self._precision]

    def _figures(
        self, cuts: Collection[CutModel], without: Collection[str] = ()
    ) -> Mapping[str, Figure]:
        """Figures of whole models that ran, and of all bricks of the others.

        Args:
            cuts: The models.
            without: Signatures of models whose runs are left out, beside those for comparison.
        """
        figures: dict[str, Figure] = {}
        needed: dict[str, None] = {}
        for cut in cuts:
            whole = cut.whole.signature
            if self._figure(cut, without) is not None:
                figures[whole] = self._runs.drifting[whole]
            else:
                needed |= dict.fromkeys(cut.counts)
        every = self._runs.bricks({*self._excluded, *without})
        figures |= {s: every[s] for s in needed if s in every}
        shown = {s: each for s, each in every.items() if each.teaches}
        # An unsupported brick has no latency to predict.
        missing = [s for s in needed if s not in figures and s not in self._known_refusals]
        mostly = [i for i, cut in enumerate(self._cuts) if self._costs.share(i, shown) >= _MOSTLY]
        other = [cut for cut in cuts if all(cut is not self._cuts[i] for i in mostly)]
        large = {s for cut in other if self._figure(cut, without) is None for s in cut.counts}
        small = [s for s in missing if s not in large]
        rest = [s for s in missing if s in large]
        return {**figures, **self._unknown.figures(rest, shown, small)}

    def _named(self, cutting: Cutting, figures: Mapping[str, Figure]) -> Ledger:
        """The ledger with a reason for each model that was not run."""
        reasons: dict[Question, str] = {}
        for cut in cutting.brickset.models:
            if reason := self._why_not(cut):
                parts = [s for s in cut.counts if s not in figures]
                keys = [self._runs.key(cut), *(self._request.hot.key(s, "brick") for s in parts)]
                reasons = {**dict.fromkeys(keys, reason), **reasons}
        return self._runs.warned_ledger.failing(reasons)


def run_wholes(
    cutting: Cutting,
    request: Request,
    store: ResultStore,
    observer: Observer,
    begin: float,
    ahead: Ahead | None,
    *,
    compares: bool,
) -> tuple[RunResult, tuple[int, ...]]:
    """Estimates models from runs of some of them, and predictions.

    A model that runs is measured, and the framework's profile gives the latencies of its bricks.
    Models that share these bricks need no run of their own.

    Args:
        cutting: The models and their bricks.
        request: How models run, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        begin: When the run began, in seconds of ``monotonic``.
        ahead: Process that was begun before; ``None`` if there is none.
        compares: Whether the other models run as well, for comparison.

    Returns:
        The result, and positions of models that it lacks, because neither they nor models with
        their bricks can run. If the time is over, it has predictions of these, too.
    """
    end = begin + (request.budget_s or math.inf)
    with ExitStack() as opened:
        opened.enter_context(measurement_lock(observer.note))
        adapting = Adapting(
            cutting, request, store, observer, opened, PREDICTOR, compares=compares, ahead=ahead
        )
        left = adapting.run_most_informative(end)
        unable = tuple(left) if monotonic() < end else ()
        able = [i for i in range(len(cutting.brickset.models)) if i not in unable]
        return adapting.result(able, begin), unable


def _enough(precision: float) -> float:
    """Share of a model's latency in profiled bricks from which its estimate is precise enough."""
    deviation = precision / NORMAL_HALF_WIDTH
    left = deviation**2 - in_place_errors().shared ** 2 - Learned.composing_error**2
    return 1 - math.sqrt(left) / _UNKNOWN_ERROR if left > 0 else 2.0
