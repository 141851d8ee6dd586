"""The loop over whole models: runs those that tell most, until estimates are precise."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from time import monotonic

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.learned import Learned
from dlbricks_core.estimation.adaptive.model_figures import ModelFigures, RunCosts
from dlbricks_core.estimation.results import AdaptiveRun, RunResult
from dlbricks_core.facts.note import note
from dlbricks_core.figures.figure import in_place_errors
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.measure.costs import QUICK_START_S
from dlbricks_core.measure.schedule import not_within
from dlbricks_core.predict import usual_predictor
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import PEAKS

PLAIN_RUNS = 9
"""Runs of each model in a plain script after the first run, which is part of loading. The script
warms up with two runs and times eight (benchmarks/plain)."""

_MOST_OF_PLAIN = 1.1
"""Seconds of runs, relative to those of a plain script for the models, from which no model runs a
second time. Models that are not precise by then are as rough in a plain script."""

_BRIEF_S = 0.5
"""Seconds of further runs that are always worth while: a command takes longer to start."""

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


class ModelLoop:
    """One request: the choice of the next runs, and its result.

    Args:
        figures: Figures so far.
        store: Store of the measurements.
        observer: Receives the progress.
        compares: Whether the models run in any case, to be compared with their estimates.
    """

    def __init__(
        self, figures: ModelFigures, store: ResultStore, observer: Observer, *, compares: bool
    ) -> None:
        self._figures = figures
        self._cuts, self._runs, self._costs = figures.cuts, figures.runs, figures.costs
        self._request, self._precision = figures.request, figures.precision
        self._store = store
        self._observer = observer
        self._compares = compares
        self._reason = note("no-run-narrows")

    def run_most_informative(self, end: float) -> list[int]:
        """Runs models until estimates are precise, or time is over.

        A model with denormal weights runs in any case: bricks with usual ones tell nothing of it.

        Args:
            end: When the time is over, in seconds of ``monotonic``.

        Returns:
            Positions of models of which neither their own runs nor those of others tell.
        """
        lacking = [i for i, cut in enumerate(self._cuts) if not self._figures.is_precise(cut)]
        slowed = [i for i in lacking if self._cuts[i].model.is_slowed and self._able(self._cuts[i])]
        self._run(slowed, len(slowed), end)
        lacking = self._not_predictable([i for i in lacking if i not in slowed])
        able = [i for i in lacking if self._able(self._cuts[i])]
        known, enough = self._figures.bricks.keys(), _enough(self._precision)
        left_ms = 1e3 * (end - monotonic())
        running = self._costs.running
        if min(left_ms, sum(running[i] for i in able)) >= _WORTH_RATES_MS:
            self._time_rates()
        self._run(chosen(self._costs, lacking, able, known, enough), len(able), end)
        lacking = [i for i in lacking if not self._figures.is_precise(self._cuts[i])]
        rest = [i for i in self._figures.imprecise(lacking) if self._able(self._cuts[i])]
        self._run_again(rest, end)
        return [i for i in lacking if self._is_left(self._cuts[i])]

    def _run_again(self, order: Sequence[int], end: float) -> None:
        """Runs models a second time, as long as all runs cost about as much as a plain script.

        The models that take least time come first.

        Args:
            order: Their positions.
            end: When the time is over, in seconds of ``monotonic``.
        """
        plain_s = sum(
            self._plain_s_of(cut) or running_ms / 1e3
            for cut, running_ms in zip(self._cuts, self._costs.running, strict=True)
        )
        spent_s = sum(self._runs.ledger.effort.seconds.values())
        left_s = max(_MOST_OF_PLAIN * plain_s - spent_s, _BRIEF_S)
        again = sorted((self._burst_s(i), i) for i in order)
        totals = accumulate(seconds for seconds, _ in again)
        worth = [i for (_, i), total in zip(again, totals, strict=True) if total <= left_s]
        if len(worth) < len(again):
            self._reason = note("costs-as-plain")
        self._run(worth, len(worth), end)

    def _burst_s(self, position: int) -> float:
        """Seconds of loading and running a model: those of last time, or else expected ones."""
        measured = self._runs.ledger.measurements.get(self._runs.key(self._cuts[position]))
        if measured is None:
            return self._costs.running[position] / 1e3
        last = measured.observations[-1]
        return (last.loading_s or 0.0) + (last.spent_s or 0.0)

    def _time_rates(self) -> None:
        """Times the rates of an unknown system, on which this estimate and later ones rest."""
        if self._figures.unknown.system_is_known or not usual_predictor().rates():
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
        if not tried or not self._figures.unknown.system_is_known:
            return list(positions)
        known = {*tried} - {*self._figures.imprecise(tried)}
        return [i for i in positions if i not in known]

    def _is_left(self, cut: CutModel) -> bool:
        """Whether the latency can come neither from a run of the model nor from runs of others."""
        covered = cut.counts.keys() <= self._figures.bricks.keys()
        return self._figures.refused(cut) or not (self._able(cut) or covered)

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
            self._figures.excluded.discard(cut.whole.signature)
            if not self._figures.is_precise(cut):
                harvest = self._shares_bricks(cut)
                burst = self._figures.burst.for_harvest() if harvest else self._figures.burst
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
        new = cut.counts.keys() - self._figures.bricks.keys()
        others = (
            i
            for i, each in enumerate(self._cuts)
            if each is not cut
            and not new.isdisjoint(each.counts)
            and self._figures.figure(each) is None
        )
        return any(self._costs.share(i, new) >= _WORTH_PROFILING for i in others)

    def _able(self, cut: CutModel) -> bool:
        """Whether a whole model may run for an estimate, or runs in any case for comparison."""
        return self._figures.may_run(cut) and (self._compares or self._figures.is_modest(cut))

    def result(self, positions: Sequence[int], begin: float | None = None) -> RunResult:
        """The result for some models from the figures so far, beside their latencies if compared.

        Args:
            positions: Positions of the models.
            begin: When the run began, in seconds of ``monotonic``; ``None`` if nothing ran.
        """
        seconds = None if begin is None else monotonic() - begin
        cutting = self._figures.cutting.only(positions)
        cuts = cutting.brickset.models
        figures = self._figures.known(cuts)
        precise = [self._figures.is_precise(cut) for cut in cuts]
        progress = AdaptiveRun(
            (),
            timed=len(cutting.brickset.bricks.keys() & self._figures.bricks.keys()),
            wholes=sum(self._figures.figure(cut) is not None for cut in cuts),
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
        found = self._figures.assembly(
            cutting, figures, replace(self._runs.warned_ledger, notes=notes)
        )
        # No run narrows what differs from one hour to another.
        halves = tuple(each.estimate.half_width_now for each in found.models)
        lacking = [
            (half, cut.model.name)
            for half, cut, is_precise in zip(halves, cuts, precise, strict=True)
            if half > self._precision and not is_precise
        ]
        is_open = self._request.precision is not None
        first = [*not_within(self._precision, self._reason, lacking)] if is_open else []
        if any(each.estimate.partial for each in found.models):
            first += self._figures.unknown.notes
        return found.result(
            first=first,
            predictor=self._figures.predictor,
            adaptive=replace(progress, half_widths=halves),
            peak_bytes=None if begin is None else PEAKS.since(begin),
        )

    def _run_others(self) -> None:
        """Runs the models that have not run, which estimates do without, for comparison."""
        figures = self._runs.figures
        rest = [i for i in self._figures.able if self._cuts[i].whole.signature not in figures]
        self._run(rest, len(rest), math.inf)

    def _plain_s(self) -> float | None:
        """Seconds of a plain script for all models; ``None`` if one of them has not run."""
        found = [self._plain_s_of(cut) for cut in self._cuts]
        return None if None in found else sum(each or 0.0 for each in found)

    def _plain_s_of(self, cut: CutModel) -> float | None:
        measured = self._runs.ledger.measurements.get(self._runs.key(cut))
        if measured is None:
            return None
        loading = max(each.loading_s or 0.0 for each in measured.observations)
        return loading + PLAIN_RUNS * self._runs.figures[cut.whole.signature].value / 1e3


def chosen(
    costs: RunCosts,
    lacking: Collection[int],
    able: Collection[int],
    known: Collection[str],
    enough: float,
) -> Iterator[int]:
    """Models to run, in order, until known bricks cover enough of each model that lacks precision.

    Each step chooses the model whose bricks add most to the covered share of all models per second
    of running it (greedy set cover). What was learned of costs until then counts.

    Args:
        costs: Costs of the models.
        lacking: Positions of the models that lack precision.
        able: Positions of the models that can run.
        known: Signatures of bricks with a figure.
        enough: Sufficient share of a model's latency in known bricks; above 1, no share suffices.
    """
    have = set(known)
    open_models = {i for i in lacking if costs.share(i, have) < enough}
    while candidates := [i for i in able if i in open_models]:
        needed, running = _needed(costs, open_models, have), costs.running
        gains = {i: sum(needed.get(s, 0.0) for s in costs.cuts[i].counts) for i in candidates}
        best = max(candidates, key=lambda i: gains[i] / running[i])
        yield best
        have |= costs.cuts[best].counts.keys()
        open_models.discard(best)
        open_models = {i for i in open_models if costs.share(i, have) < enough}


def _needed(
    costs: RunCosts, models: Collection[int], known: Collection[str]
) -> Mapping[str, float]:
    """Sum over models of the share of each brick without a figure, by signature."""
    found: dict[str, float] = {}
    for i in models:
        for signature, count in costs.cuts[i].counts.items():
            if signature not in known:
                part = count * costs.bricks[signature] / max(costs.models[i], 1e-9)
                found[signature] = found.get(signature, 0.0) + part
    return found


def _enough(precision: float) -> float:
    """Share of a model's latency in profiled bricks from which its estimate is precise enough."""
    deviation = precision / NORMAL_HALF_WIDTH
    left = deviation**2 - in_place_errors().shared ** 2 - Learned.composing_error**2
    return 1 - math.sqrt(left) / _UNKNOWN_ERROR if left > 0 else 2.0
