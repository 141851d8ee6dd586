"""Compares the latencies of models on several frameworks: whole, and part by part."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from dlbricks_accuracy.side_by_side import run_side_by_side

from dlbricks_compare.common import common_parts, unknown_places
from dlbricks_compare.comparison import (
    BrickComparison,
    Comparison,
    ModelComparison,
    OperatorTotal,
    PartComparison,
)
from dlbricks_compare.notes import note
from dlbricks_compare.ranking import Ranking
from dlbricks_core.bricks import Brick, extract, signature
from dlbricks_core.compose import Estimate
from dlbricks_core.compose.options import CutOptions, find_composer
from dlbricks_core.estimation.assemble import whole_networks
from dlbricks_core.estimation.results import ModelResult, RunResult
from dlbricks_core.facts import Kind, Note, Quantity
from dlbricks_core.figures.figure import Cost, Figure, Measured, interval
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

_UNEXPLAINED = 0.1
"""Share of a model's latency above which a difference from the sum of its parts is reported."""


def compare(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
) -> Comparison:
    """Measures models and their parts on several backends in turn, and ranks the backends.

    The comparison covers the parts of a model between positions where all backends cut it.
    Arguments and errors are those of :func:`.run_side_by_side`.
    """
    runs = run_side_by_side(models, cut_options, requests, store, observer)
    loads = {each.id: each.load for each in store.sessions() if each.load is not None}
    return _Comparing(runs, loads).comparison()


Counts = Mapping[str, Counter[str]]
"""Number of runs of each brick, by backend and signature."""


@dataclass(frozen=True)
class _Piece:
    """A part of a model, and the bricks that each backend runs for it."""

    brick: Brick
    bricks: Counts


class _Comparing:
    """Ranks backends by their measurements.

    Args:
        runs: Runs by backend.
        loads: Share of the CPU time that other programs used, by session, where known.
    """

    def __init__(self, runs: Mapping[str, RunResult], loads: Mapping[str, float]) -> None:
        self._runs = runs
        self._loads = loads
        self._latencies: dict[str, dict[str, Figure]] = {
            name: {b.brick.signature: b.latency for b in run.bricks if b.latency}
            for name, run in runs.items()
        }
        self._networks = {
            name: (
                run.ledger.networks("brick", run.request.quantity).figures,
                whole_networks(run.request, run.ledger).figures,
            )
            for name, run in runs.items()
        }

    def comparison(self) -> Comparison:
        """The complete comparison."""
        pieces = [self._pieces(position) for position in range(len(self._any_run.models))]
        models = [self._model(position, each) for position, each in enumerate(pieces)]
        parts = self._parts([piece for each in pieces for piece in each])
        notes = (
            *self._cut_notes(),
            *self._session_notes(),
            *self._load_notes(),
            *(each for model in models for each in _notes(model)),
        )
        operators = _operators(parts) if self._quantity.adds_up else []
        return Comparison(self._runs, models, parts, self._bricks(), operators, notes)

    @property
    def _any_run(self) -> RunResult:
        return next(iter(self._runs.values()))

    @property
    def _quantity(self) -> Quantity:
        return self._any_run.request.quantity

    def _pieces(self, position: int) -> list[_Piece]:
        """Parts that all backends have of the model at a position, in execution order."""
        cuts = [run.models[position].cut for run in self._runs.values()]
        return [
            _Piece(
                _cut_out(cuts[0].model, part.layers),
                {
                    name: Counter(each.signature for each in occurrences)
                    for name, occurrences in zip(self._runs, part.occurrences, strict=True)
                },
            )
            for part in common_parts(cuts)
        ]

    def _model(self, position: int, pieces: Sequence[_Piece]) -> ModelComparison:
        results = {name: run.models[position] for name, run in self._runs.items()}
        wholes = {n: Cost.whole(r.measured) for n, r in results.items() if r.measured is not None}
        whole = next(iter(results.values())).cut.whole.signature
        parts = self._parts(pieces)
        counts = {name: result.cut.counts for name, result in results.items()}
        picks = dict.fromkeys(results, 0)
        for part in parts:
            if part.ranking.fastest:
                picks[part.ranking.fastest] += part.occurrences
        return ModelComparison(
            results=results,
            parts=parts,
            ranking=Ranking.of(wholes, self._slowdown({name: [whole] for name in wholes}, "model")),
            sums=self._composed(results),
            ideal=(
                _ideal(parts, self._call_ms(counts))
                if self._quantity.adds_up
                else Estimate(None, None)
            ),
            picks=picks,
        )

    def _parts(self, pieces: Iterable[_Piece]) -> list[PartComparison]:
        """Parts grouped by equal structure, the largest differences first."""
        alike: dict[str, list[_Piece]] = {}
        for piece in pieces:
            alike.setdefault(piece.brick.signature, []).append(piece)
        found = []
        for same in alike.values():
            bricks = {
                name: sum((piece.bricks[name] for piece in same), Counter()) for name in self._runs
            }
            found.append(PartComparison(same[0].brick, len(same), bricks, self._ranking(bricks)))
        return sorted(found, key=_rank)

    def _bricks(self) -> list[BrickComparison]:
        results = {
            name: {each.brick.signature: each for each in run.bricks}
            for name, run in self._runs.items()
        }
        bricks = {s: each.brick for found in results.values() for s, each in found.items()}
        compared = []
        for identity, brick in bricks.items():
            here = {name: each[identity] for name, each in results.items() if identity in each}
            ranking = self._ranking({name: Counter([identity]) for name in here})
            compared.append(BrickComparison(brick, here, ranking))
        return compared

    def _ranking(self, bricks: Counts) -> Ranking:
        """Ranking of the backends that measured all of their bricks."""
        return Ranking.of(self._costs(bricks), self._slowdown(bricks, "brick"))

    def _composed(self, results: Mapping[str, ModelResult]) -> dict[str, Cost]:
        """Composed cost of a model on each backend that measured all of its bricks.

        A metric composes its own quantity. Latencies exclude the call of the timer.
        """
        if self._any_run.request.metric is None:
            return self._costs({name: result.cut.counts for name, result in results.items()})
        estimates = {name: result.estimate for name, result in results.items()}
        return {
            name: Cost(each.value, each.draws)
            for name, each in estimates.items()
            if each.value is not None and each.draws is not None and not each.partial
        }

    def _costs(self, bricks: Mapping[str, Mapping[str, int]]) -> dict[str, Cost]:
        """Total cost of bricks on each backend that measured all of them.

        The total is the sum where the quantity adds up, and the maximum otherwise.
        """
        found = {}
        for name, counts in bricks.items():
            latencies = self._latencies[name]
            if counts.keys() <= latencies.keys():
                costs = [(number, Cost.brick(latencies[s])) for s, number in counts.items()]
                found[name] = (
                    Cost.total(costs)
                    if self._quantity.adds_up
                    else max((cost for _, cost in costs), key=lambda cost: cost.ms)
                )
        return found

    def _call_ms(self, bricks: Mapping[str, Mapping[str, int]]) -> float:
        """Cost of a call of the timer in milliseconds, on the backend where it is lowest."""
        calls = [
            [self._latencies[name][s].overhead for s in counts if s in self._latencies[name]]
            for name, counts in bricks.items()
        ]
        return min((max(each) for each in calls if each), default=0.0)

    def _slowdown(self, networks: Mapping[str, Iterable[str]], kind: Kind) -> float:
        """Factor by which a disturbance may have slowed networks on one backend alone.

        Args:
            networks: Signatures by backend.
            kind: Kind of the networks: bricks or whole models.
        """
        if not self._quantity.is_time:
            return 1.0
        used = 0.0
        disturbed = 1.0
        for name, signatures in networks.items():
            for figure in self._measured(name, signatures, kind):
                disturbed = max(disturbed, figure.disturbance.slowdown)
                sessions = {session for session, _ in figure.rounds}
                used = max([used, *(self._loads[s] for s in sessions & self._loads.keys())])
        return max(disturbed, 1 / (1 - used) if used < 1 else math.inf)

    def _measured(self, name: str, signatures: Iterable[str], kind: Kind) -> Iterable[Measured]:
        """Measured figures from which figures of networks on a backend are derived."""
        bricks, wholes = self._networks[name]
        if kind == "model":
            return [wholes[s] for s in signatures if s in wholes]
        timed = self._runs[name].timed
        return [bricks[t] for s in signatures for t in timed.get(s, ()) if t in bricks]

    def _cut_notes(self) -> tuple[Note, ...]:
        """A note if parts are not cut from the graphs that backends execute."""
        in_place = self._any_run.request.condition == "hot"
        if in_place or find_composer(self._any_run.cut_options.composer).cuts_rewritten:
            return ()
        names = [name for name, run in self._runs.items() if run.request.backend.traits.rewrites]
        if not names:
            return ()
        return (note("parts-of-own-layers", backends=names),)

    def _load_notes(self) -> tuple[Note, ...]:
        """A note if the load of the machine is unknown for some sessions."""
        if not self._quantity.is_time:
            return ()
        sessions = {
            taken.session
            for run in self._runs.values()
            for measurement in run.ledger.measurements.values()
            for taken in measurement.observations
        }
        unknown = sessions - self._loads.keys()
        if not unknown:
            return ()
        return (note("load-unknown", sessions=len(unknown), of_sessions=len(sessions)),)

    def _session_notes(self) -> tuple[Note, ...]:
        """A note if backends were not timed side by side."""
        if not self._quantity.is_time:
            return ()
        apart = 0
        for position in range(len(self._any_run.models)):
            sessions = []
            for name, run in self._runs.items():
                cut = run.models[position].cut
                found = [
                    *self._measured(name, [cut.whole.signature], "model"),
                    *self._measured(name, cut.counts, "brick"),
                ]
                sessions += [{session for session, _ in each.rounds} for each in found]
            apart += bool(sessions) and not set.intersection(*sessions)
        if not apart:
            return ()
        return (note("different-sessions", models=apart, of_models=len(self._any_run.models)),)


def _cut_out(model: CanonicalModel, layers: tuple[int, ...]) -> Brick:
    identity = signature(model, layers)
    return Brick(identity, extract(model, layers, identity))


def _rank(part: PartComparison) -> tuple[bool, float]:
    if part.difference_ms is not None:
        return False, -part.difference_ms
    return True, -max((cost.ms for cost in part.ranking.costs.values()), default=0.0)


def _ideal(parts: Sequence[PartComparison], call_ms: float) -> Estimate:
    """Sum of the parts' minima, plus one call of the timer as in every estimate."""
    minima = [next(iter(part.ranking.costs.values()), None) for part in parts]
    missing = tuple(
        part.brick.signature for part, least in zip(parts, minima, strict=True) if least is None
    )
    total = Cost.total((1, least) for least in minima if least is not None)
    if len(missing) == len(parts):
        return Estimate(None, None, missing)
    value = call_ms + total.ms
    return Estimate(value, interval(call_ms + total.replicates, value), missing)


def _notes(compared: ModelComparison) -> Iterable[Note]:
    """Notes on the limits of the table of parts for one model."""
    name = compared.model.name
    numbers = {n: len(result.cut.occurrences) for n, result in compared.results.items()}
    parts = sum(part.occurrences for part in compared.parts)
    unknown = {n: unknown_places(result.cut) for n, result in compared.results.items()}
    for backend, number in unknown.items():
        if number:
            yield note("cuts-unknown", name, backend=backend, places=number)
    if parts == 1 and min(numbers.values()) > 1:
        yield note("no-common-cut", name)
    for backend, result in compared.results.items():
        if _is_unexplained(result):
            yield note("parts-do-not-add-up", f"{name} on {backend}", share=result.normalized)
    if compared.is_contradicted:
        yield note("parts-contradict", name, backend=compared.ranking.winner)


def _is_unexplained(result: ModelResult) -> bool:
    """Whether the sum of the parts differs from the measurement by more than both intervals."""
    ends = result.estimate.interval
    if result.normalized is None or result.measured is None or ends is None:
        return False
    low, high = result.measured.interval
    apart = ends[1] < low or ends[0] > high
    return apart and abs(result.normalized - 1) > _UNEXPLAINED


def _operators(parts: Sequence[PartComparison]) -> list[OperatorTotal]:
    ordered = sorted(parts, key=_operators_of)
    totals = [
        _operator_total(operators, list(alike))
        for operators, alike in groupby(ordered, key=_operators_of)
    ]
    return sorted(totals, key=lambda t: -max((ms or 0.0) for ms in t.totals_ms.values()))


def _operators_of(part: PartComparison) -> tuple[str, ...]:
    return part.brick.operators


def _operator_total(operators: tuple[str, ...], parts: Sequence[PartComparison]) -> OperatorTotal:
    totals: dict[str, float | None] = dict.fromkeys(parts[0].bricks)
    missing = dict.fromkeys(totals, 0)
    for part in parts:
        for name in totals:
            cost = part.ranking.costs.get(name)
            if cost is None:
                missing[name] += part.occurrences
            else:
                totals[name] = (totals[name] or 0.0) + cost.ms
    return OperatorTotal(operators, sum(part.occurrences for part in parts), totals, missing)
