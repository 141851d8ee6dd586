"""Figures of models from runs of whole models, and the results that rest on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

from dlbricks_core.analysis.work import layer_flops
from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.options import LEARNED_COMPOSER, find_composer
from dlbricks_core.estimation.adaptive.ahead import Ahead
from dlbricks_core.estimation.adaptive.drift import scatter_within
from dlbricks_core.estimation.adaptive.unknown import Ran, Unknown
from dlbricks_core.estimation.adaptive.wholes import WholeRuns
from dlbricks_core.estimation.assemble import Assembly, apart_of
from dlbricks_core.estimation.results import ModelResult, RunResult
from dlbricks_core.facts import Question
from dlbricks_core.figures.figure import Figure, InPlace, Measured
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.footprint import gigabytes
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

_FLOPS_MS, _BYTES_MS, _LAYER_MS = 2e7, 1e7, 0.003
"""Floating-point operations and bytes in a millisecond, and milliseconds of a layer, on a core of a
usual server. Only ratios matter, because they order the models."""

_LOADING_MS, _LOADED_BYTES_MS = 20.0, 5e5
"""Milliseconds to prepare a model, and bytes of weights that it reads in a millisecond."""

_MOST_MEMORY = 0.6
"""Maximum share of the free memory for a whole model; larger models are estimated from bricks."""

_MOST_DRAWN_BYTES = 2**30
"""Maximum bytes of weights that are drawn for a model without a file. Its bricks take a fraction of
these bytes, because blocks of large models repeat."""

_MOSTLY = 0.85
"""Share of a model's latency in profiled bricks from which rough figures of the others suffice."""


class ModelFigures:
    """Figures of whole models that ran and of the bricks inside of them, and predictions of others.

    Args:
        cutting: The models and their bricks.
        request: How bricks are timed alone, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        opened: Closes the workers.
        predictor: Name of the predictor.
        apart: Whether estimates use no model that ran before, as they are compared with its runs.
        session: Identifier of the session; ``None`` for a new one.
        ahead: Process that was begun before; ``None`` if there is none.

    Attributes:
        cutting: The models and their bricks.
        cuts: The models.
        request: How bricks are timed alone.
        precision: Half-width of the intervals to reach, relative to the latency.
        burst: Extent of a model's runs.
        runs: Whole models that ran.
        costs: Rough costs of the models.
        unknown: Predictions of bricks that no run has shown.
        excluded: Signatures of whole models whose runs estimates do not use.
        predictor: Name of the predictor.
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
        apart: bool = False,
        session: str | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.cutting = cutting
        self.cuts = cutting.brickset.models
        self.request = request
        self.precision = request.precision or 1.0
        self.burst = request.burst
        self.runs = WholeRuns(request.hot, store, observer, opened, session, ahead)
        self.runs.look_up(self.cuts)
        self.costs = RunCosts(self.cuts, self.burst.fewest + self.burst.profiled + 1)
        bricks = cutting.brickset.bricks
        self.unknown = Unknown(bricks, self.costs.bricks, request, store, observer, predictor)
        self.excluded = {cut.whole.signature for cut in self.cuts} if apart else set()
        self.predictor = predictor
        again = request.force or request.retry_failed
        refused = {} if again else store.refused(request.setup, request.fingerprint)
        self._known_refusals = refused.keys()

    @property
    def able(self) -> list[int]:
        """Positions of the models that may run as a whole."""
        return [i for i, cut in enumerate(self.cuts) if self.may_run(cut)]

    def run_one(self, position: int) -> None:
        """Runs a model with a profile of its bricks, unless it has run often enough before."""
        cut = self.cuts[position]
        figure = self.figure(cut)
        if figure is None or len(figure.samples) < self.burst.fewest_samples:
            self.runs.run(cut, self.burst.for_harvest())

    def known_by_runs(self, share: float) -> list[int]:
        """Positions of models that ran, or have enough of their latency in bricks that ran."""
        known = self.bricks.keys()
        return [
            i
            for i, cut in enumerate(self.cuts)
            if self.figure(cut) is not None
            or (self.costs.share(i, known) >= share and not self.refused(cut))
        ]

    def left_out(self) -> RunResult:
        """Estimates of each model from the runs of all others, with its own latency."""
        shared = self.assembly(self.cutting, self.bricks).result(predictor=self.predictor)
        models: list[ModelResult] = []
        for i, cut in enumerate(self.cuts):
            own = self.cutting.only([i])
            figures = self.known([cut], without={cut.whole.signature})
            models += self.assembly(own, figures, self._named(own, figures)).models
        return replace(shared, models=models)

    def by_parts(self) -> RunResult:
        """Latencies of all models that ran, with the sums of their own profiled bricks.

        A model without a profile has no parts; its whole latency is used.
        """
        bricks = self.bricks
        figures: dict[str, Figure] = dict(bricks)
        for cut in self.cuts:
            whole = self.figure(cut)
            if whole is not None and not cut.counts.keys() <= bricks.keys():
                figures[cut.whole.signature] = self.runs.drifting[cut.whole.signature]
        found = self.assembly(self.cutting, figures, self._named(self.cutting, figures))
        return found.result(predictor=self.predictor)

    def assembly(
        self, cutting: Cutting, figures: Mapping[str, Figure], ledger: Ledger | None = None
    ) -> Assembly:
        """Figures of bricks and whole models, from which estimates are composed.

        Args:
            cutting: The models.
            figures: Figures by signature.
            ledger: Measurements and failures; ``None`` for all so far.
        """
        planned = replace(cutting, plan=cutting.plan.believing(figures, timed=()))
        found = Assembly.of(self.request.hot, planned, ledger or self.runs.warned_ledger)
        return replace(found, shown=self.bricks)

    @property
    def bricks(self) -> Mapping[str, InPlace]:
        """Figures of bricks in profiles of running models."""
        return self.runs.bricks(self.excluded)

    def may_run(self, cut: CutModel) -> bool:
        """Whether a whole model may run here, without taking the machine's memory."""
        failed = self.runs.key(cut) in self.runs.ledger.failures
        return not (failed or self._why_not(cut))

    def is_modest(self, cut: CutModel) -> bool:
        """Whether a whole model takes so little memory that it may run without being asked for."""
        footprint = self.cutting.footprints.get(cut.whole.signature)
        return footprint is None or footprint.is_modest

    def _why_not(self, cut: CutModel) -> str:
        """Reason why a whole model never runs; empty if it may run."""
        footprint = self.cutting.footprints.get(cut.whole.signature)
        drawn = self.runs.key(cut).subject.kind != "native"
        if drawn and cut.model.weight_bytes > _MOST_DRAWN_BYTES:
            return f"{gigabytes(cut.model.weight_bytes)} GB of weights would be drawn"
        if footprint is not None and not footprint.fits:
            return f"it does not fit: {footprint}"
        if footprint is not None and (
            footprint.needed_bytes > _MOST_MEMORY * footprint.available_bytes
        ):
            return f"a whole model runs in {_MOST_MEMORY:.0%} of the free memory, and {footprint}"
        if self.refused(cut):
            return "a part of it is not supported, or unknown"
        return ""

    def refused(self, cut: CutModel) -> bool:
        """Whether the store records a refusal of a part of a model, or a layer is opaque.

        Timing its bricks shows the unsupported part.
        """
        parts = {cut.whole.signature, *cut.counts, *cut.layer_signatures}
        opaque = any(layer.opaque for layer in cut.model.layers)
        return opaque or not parts.isdisjoint(self._known_refusals)

    def figure(self, cut: CutModel, without: Collection[str] = ()) -> Figure | None:
        """Figure of a whole model that estimates may use; arguments as for :meth:`known`."""
        whole = cut.whole.signature
        left_out = whole in self.excluded or whole in without
        figure = None if left_out else self.runs.figures.get(whole)
        return None if figure is None or figure.measures_nothing else figure

    def is_precise(self, cut: CutModel) -> bool:
        """Whether a model has run to the requested precision."""
        figure = self.figure(cut)
        if figure is None or len(figure.samples) < self.burst.fewest_samples:
            return False
        return figure.relative_scatter <= scatter_within(self.precision)

    def imprecise(self, positions: Sequence[int]) -> list[int]:
        """Positions of models whose estimates are not precise enough."""
        positions = [i for i in positions if not self.is_precise(self.cuts[i])]
        cuts = [self.cuts[i] for i in positions if not self.refused(self.cuts[i])]
        figures = self.known(cuts) if cuts else {}
        composer = find_composer(LEARNED_COMPOSER)
        estimates = {i: composer.compose(self.cuts[i], figures) for i in positions}
        return [i for i, each in estimates.items() if each.half_width > self.precision]

    def known(
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
            if self.figure(cut, without) is not None:
                figures[whole] = self.runs.drifting[whole]
            else:
                needed |= dict.fromkeys(cut.counts)
        every = self.runs.bricks({*self.excluded, *without})
        figures |= {s: every[s] for s in needed if s in every}
        shown = {s: each for s, each in every.items() if each.teaches}
        # An unsupported brick has no latency to predict.
        missing = [s for s in needed if s not in figures and s not in self._known_refusals]
        mostly = [i for i, cut in enumerate(self.cuts) if self.costs.share(i, shown) >= _MOSTLY]
        other = [cut for cut in cuts if all(cut is not self.cuts[i] for i in mostly)]
        large = {s for cut in other if self.figure(cut, without) is None for s in cut.counts}
        small = [s for s in missing if s not in large]
        rest = [s for s in missing if s in large]
        wholes = self.runs.figures
        ran = {s: Ran(whole, _session_of(wholes[whole])) for each in self.cuts
               if (whole := each.whole.signature) in wholes for s in each.counts}  # fmt: skip
        apart = apart_of(self.runs.warned_ledger, self.request.hot)
        return {**figures, **self.unknown.figures(rest, shown, ran, small, apart)}

    def _named(self, cutting: Cutting, figures: Mapping[str, Figure]) -> Ledger:
        """The ledger with a reason for each model that was not run."""
        reasons: dict[Question, str] = {}
        for cut in cutting.brickset.models:
            if reason := self._why_not(cut):
                parts = [s for s in cut.counts if s not in figures]
                keys = [self.runs.key(cut), *(self.request.hot.key(s, "brick") for s in parts)]
                reasons = {**dict.fromkeys(keys, reason), **reasons}
        return self.runs.warned_ledger.failing(reasons)


def _session_of(figure: Measured) -> str:
    """Identifiers of the sessions in which a model ran."""
    return ",".join(dict.fromkeys(session for session, _ in figure.rounds))


@dataclass
class _Learned:
    """Ratio of what models took to what was expected of them.

    Attributes:
        taken_ms: Milliseconds that they took. A model as expected stands at the begin.
        expected_ms: Milliseconds that were expected.
    """

    taken_ms: float
    expected_ms: float = field(init=False)

    def __post_init__(self) -> None:
        self.expected_ms = self.taken_ms

    @property
    def factor(self) -> float:
        """Factor of what is expected of further models."""
        return self.taken_ms / self.expected_ms

    def add(self, expected_ms: float, taken_ms: float) -> None:
        """Adds a model."""
        self.expected_ms += expected_ms
        self.taken_ms += taken_ms


@dataclass(frozen=True)
class RunCosts:
    """Rough costs of models, from their sizes and from models that ran.

    Attributes:
        cuts: The models and their bricks.
        runs: Runs of a model that is timed.
    """

    cuts: Sequence[CutModel]
    runs: int
    _loading: _Learned = field(default_factory=lambda: _Learned(_LOADING_MS))
    _running: _Learned = field(default_factory=lambda: _Learned(_LOADING_MS))

    def learn(self, position: int, loading_ms: float, latency_ms: float) -> None:
        """Corrects the costs of all models by those of one that ran.

        Args:
            position: Position of the model.
            loading_ms: Milliseconds until the end of its first run.
            latency_ms: Its latency in milliseconds.
        """
        self._running.add(self.models[position], latency_ms)
        self._loading.add(self._loading_ms(position), max(loading_ms - latency_ms, 0.0))

    @cached_property
    def bricks(self) -> Mapping[str, float]:
        """Latency of each brick in milliseconds, by signature."""
        found: dict[str, float] = {}
        for cut in self.cuts:
            for each in cut.occurrences:
                if each.signature not in found:
                    found[each.signature] = _latency_ms(cut.graph, each.layers)
        return found

    @cached_property
    def models(self) -> Sequence[float]:
        """Latency of each model in milliseconds."""
        return [sum(count * self.bricks[s] for s, count in cut.counts.items()) for cut in self.cuts]

    @property
    def running(self) -> Sequence[float]:
        """Milliseconds to load each model and to run it."""
        loading, running = self._loading.factor, self.runs * self._running.factor
        return [
            self._loading_ms(i) * loading + latency_ms * running
            for i, latency_ms in enumerate(self.models)
        ]

    def _loading_ms(self, position: int) -> float:
        return _LOADING_MS + self.cuts[position].model.weight_bytes / _LOADED_BYTES_MS

    def share(self, position: int, known: Collection[str]) -> float:
        """Share of a model's latency in bricks with a figure."""
        cut, total = self.cuts[position], self.models[position]
        part = sum(n * self.bricks[s] for s, n in cut.counts.items() if s in known)
        return part / total if total else 1.0


def _latency_ms(model: CanonicalModel, layers: Sequence[int]) -> float:
    total = 0.0
    for index in layers:
        layer = model.layers[index]
        names = {name for name in (*layer.inputs, *layer.outputs) if name in model.tensors}
        nbytes = sum(spec.nbytes for name in names if (spec := model.tensors[name]).is_static)
        flops = layer_flops(model, layer) or 0
        total += _LAYER_MS + max(flops / _FLOPS_MS, nbytes / _BYTES_MS)
    return total
