"""Predictions of bricks that no model has run, corrected by bricks of running models."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple, Self
from zlib import crc32

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.bricks import Brick
from dlbricks_core.estimation.conditioned import ConditionedPredictor, training_data
from dlbricks_core.facts import Note
from dlbricks_core.facts.note import note
from dlbricks_core.figures.figure import RESAMPLES, InPlace
from dlbricks_core.figures.predicted import Discrepancy, Predicted, SpreadFactor
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.measure.request import Request
from dlbricks_core.predict import MeasuredNetworks, usual_predictor
from dlbricks_core.predict.defaults import DISTRIBUTION, PREDICTOR
from dlbricks_core.predict.installed import is_installed
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

_FEW = 5.0
"""Number of models with the same weight as what was known before them: of a kind's factor beside
the factor of all kinds, and of that one beside the predictions of a system's own data. Bricks of
one model share its errors, so that many of them tell no more than the model."""

_LEAST_SPREAD = 0.1
"""Minimum standard deviation of the logarithm of a prediction's error, even if predictions fit the
bricks of running models well."""

_NEARLY_ALL, _MOST_TELLING = 0.95, 150
"""Share of the time of what ran in the bricks that predictions of an unknown system rest on, and
maximum number of these bricks."""


@dataclass(frozen=True)
class FactorsOfModels:
    """Factors between the latencies of models and predictions from their own system's data.

    Attributes:
        deviation: Standard deviation of their logarithm from one model to another.
    """

    deviation: float


@cache
def factors_of_models() -> FactorsOfModels:
    """The factors that were fitted."""
    return FactorsOfModels(**fitted.values(__file__, "models"))


class Ran(NamedTuple):
    """A run that showed a brick.

    Attributes:
        model: Signature of the model.
        session: When the model ran. Models of one session share the speed that the machine had.
    """

    model: str
    session: str = ""


@dataclass
class Unknown:
    """Predicts bricks from the reference data and the store.

    Attributes:
        bricks: All bricks of the models, by signature.
        costs: Rough cost of each brick in milliseconds, by signature.
        request: How bricks are timed alone, as predictions assume.
        store: Store of the measurements.
        observer: Receives the progress.
        predictor: Name of the predictor.
    """

    bricks: Mapping[str, Brick]
    costs: Mapping[str, float]
    request: Request
    store: ResultStore
    observer: Observer
    predictor: str
    _predicted: dict[str, Predicted] = field(default_factory=dict)
    _conditioned: dict[object, Mapping[str, Predicted]] = field(default_factory=dict)

    @cached_property
    def _contributions(self) -> Sequence[MeasuredNetworks]:
        return training_data(self.predictor, self.store, self.request.setup.backend)

    @cached_property
    def _oracle(self) -> ConditionedPredictor:
        return ConditionedPredictor(self.predictor, self.request, self._contributions, ())

    @cached_property
    def is_predicting(self) -> bool:
        """Whether the predictor is there; without its distribution, bricks have no predictions."""
        return self.predictor != PREDICTOR or is_installed()

    @property
    def notes(self) -> Sequence[Note]:
        """A note on the lack of a predictor, if it lacks."""
        if self.is_predicting:
            return ()
        return [note("predictor-not-installed", distribution=DISTRIBUTION)]

    @property
    def system_is_known(self) -> bool:
        """Whether anything was measured on this system, with the backend and as many threads."""
        if self._is_surveyed:
            return True
        # What predictions rest on is looked up later: rates may be timed until then.
        backend = self.request.setup.backend
        return self._are_here(usual_predictor().training_data(self.store, backend))

    @cached_property
    def _is_surveyed(self) -> bool:
        return self._are_here(usual_predictor().shipped(self.request.setup.backend))

    def _are_here(self, networks: Sequence[MeasuredNetworks]) -> bool:
        """Whether some were measured on this system, with as many threads."""
        place = self.request.fingerprint, self.request.setup.threads
        return any((each.system.fingerprint, each.setup.threads) == place for each in networks)

    def figures(
        self,
        signatures: Collection[str],
        seen: Mapping[str, InPlace],
        ran: Mapping[str, Ran],
        small: Collection[str] = (),
        apart: float = 0.0,
    ) -> Mapping[str, Predicted]:
        """Figures of bricks by signature.

        Args:
            signatures: Signatures of the bricks.
            seen: Figures of bricks inside of running models, by signature.
            ran: Run that showed each of these bricks, if it is known.
            small: Signatures of further bricks for which rough figures suffice.
            apart: Standard deviation of the relative difference of a latency from one hour to
                another.
        """
        rough = by_size(small, self.costs, self.bricks, seen, ran)
        return {**rough, **self._predictions(signatures, seen, ran, apart)} if signatures else rough

    def _predictions(
        self,
        signatures: Collection[str],
        seen: Mapping[str, InPlace],
        ran: Mapping[str, Ran],
        apart: float,
    ) -> Mapping[str, Predicted]:
        if not self.is_predicting:
            return {}
        if seen and not self._is_surveyed:
            return self._resting_on(seen, signatures)
        also = [s for s in seen if s in self.bricks]
        asked = [s for s in (*signatures, *also) if s not in self._predicted]
        if asked:
            self.observer.stage(f"Predicting {len(asked)} bricks")
            bricks = {s: self.bricks[s] for s in asked if not self.bricks[s].opaque}
            self._predicted |= self._oracle.figures(bricks, {})
        found = {s: self._predicted[s] for s in signatures if s in self._predicted}
        compared = {s: (self._predicted[s], seen[s]) for s in also if s in self._predicted}
        if not compared:
            return found
        kinds = {s: kind_of(self.bricks[s]) for s in {*compared, *found}}
        ratios = _Ratios.of(
            (
                _SeenBrick(kinds[s], ran.get(s, _UNKNOWN_RUN), shown.value, predicted.own)
                for s, (predicted, shown) in compared.items()
            ),
            before=_FEW,
            # Two hours differ by twice the variance by which each differs from the mean.
            shared=(apart / factors_of_models().deviation) ** 2 / 2,
        )
        return {s: _corrected(ratios, kinds[s], each) for s, each in found.items()}

    def _resting_on(
        self, seen: Mapping[str, InPlace], signatures: Collection[str]
    ) -> Mapping[str, Predicted]:
        """Predictions from other systems' data and from bricks that ran on this one.

        Without data of its own system, a prediction errs by much that layers share, which bricks
        that ran show. Where its own system's data predict, they would take a slow moment of the
        machine for a contradiction of each brick (research/2026-11-30-probes.md).
        """
        telling = [s for s in _telling(seen) if s in self.bricks]
        every = dict.fromkeys((*signatures, *telling))
        bricks = {s: self.bricks[s] for s in every if not self.bricks[s].opaque}
        known = {s: seen[s] for s in telling if s in bricks}
        question = frozenset(bricks), tuple((s, each.samples) for s, each in known.items())
        if question not in self._conditioned:
            self.observer.stage(f"Predicting {len(bricks)} bricks")
            self._conditioned[question] = self._oracle.figures(bricks, known)
        found = self._conditioned[question]
        return {s: _in_place(found[s]) for s in signatures if s in found}


def _telling(seen: Mapping[str, InPlace]) -> list[str]:
    """Signatures of the bricks that make up nearly all of the time of what ran, largest first.

    The many bricks that take next to nothing, such as those that a framework fuses into others,
    tell little about those that take time.
    """
    order = sorted(seen, key=lambda s: -seen[s].value)
    passed = np.cumsum([seen[s].value for s in order])
    number = int(np.searchsorted(passed, _NEARLY_ALL * passed[-1])) + 1 if order else 0
    return order[: min(number, _MOST_TELLING)]


def _in_place(predicted: Predicted) -> Predicted:
    """A prediction without the call of the timer, which is no part of a running model."""
    draws = np.maximum(predicted.draws - predicted.overhead, 0.0)
    return replace(predicted, expected=predicted.own, draws=draws, overhead=0.0)


def by_size(
    signatures: Collection[str],
    costs: Mapping[str, float],
    bricks: Mapping[str, Brick],
    seen: Mapping[str, InPlace],
    ran: Mapping[str, Ran],
) -> Mapping[str, Predicted]:
    """Figures of bricks from sizes alone, corrected by running bricks of the same kind.

    They are rough, and cost nothing: enough for bricks that are a small part of a model.

    Args:
        signatures: Signatures of the bricks.
        costs: Rough cost of each brick, by signature.
        bricks: The bricks by signature.
        seen: Figures of bricks inside of running models, by signature.
        ran: Run that showed each of these bricks, if it is known.
    """
    also = [s for s in seen if s in bricks and costs.get(s)]
    kinds = {s: kind_of(bricks[s]) for s in {*signatures, *also}}
    ratios = _Ratios.of(
        _SeenBrick(kinds[s], ran.get(s, _UNKNOWN_RUN), seen[s].value, costs[s]) for s in also
    )
    spread = max(ratios.spread or 0.0, _LEAST_ROUGH)
    found = {}
    for signature in signatures:
        expected = costs[signature] * ratios.factor(kinds[signature])
        normal = np.random.default_rng(crc32(signature.encode())).standard_normal(RESAMPLES)
        found[signature] = Predicted(expected, expected * np.exp(spread * normal))
    return found


def kind_of(brick: Brick) -> str:
    """Operator of a brick's first layer that computes most."""
    return next((each for each in brick.operators if each in _HEAVY), brick.operators[0])


_LEAST_ROUGH = 0.4
"""Least standard deviation of the logarithm of a rough figure's error."""

_UNKNOWN_RUN = Ran("")
"""Run of bricks of which no run is known."""

_HEAVY = frozenset(
    {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "Attention", "Einsum"}
)


class _SeenBrick(NamedTuple):
    """A brick that was seen.

    Attributes:
        kind: Its kind.
        run: The run that showed it.
        value: Its latency.
        expected: What was expected of it.
    """

    kind: str
    run: Ran
    value: float
    expected: float


@dataclass(frozen=True)
class _Ratios:
    """Factors for each kind of brick, each shrunk towards that of all kinds.

    Each model tells one ratio of sums. In sums, the many bricks that take next to nothing, such as
    those that a framework fuses into others, tell little about those that take time.

    Attributes:
        mean: Logarithm of the factor over all kinds.
        of_kinds: Logarithm of the factor of each kind.
        spread: Standard deviation of the remaining error, by the median; ``None`` for few bricks.
        models: Number of equal models without a shared error that would determine it as well.
    """

    mean: float
    of_kinds: Mapping[str, float]
    spread: float | None
    models: float

    @classmethod
    def of(cls, seen: Iterable[_SeenBrick], before: float = 0.0, shared: float = 0.0) -> Self:
        """Factors from bricks that were seen.

        The speed that the machine had in a session stays with the models that ran: the factor of
        all kinds follows only as far as models of several sessions agree, and factors of kinds are
        relative to what ran.

        Args:
            seen: The bricks.
            before: Number of models that would tell as much about the factor over all kinds as was
                known before, which is a factor of 1.
            shared: Variance of the error that models of one session share, relative to the variance
                from one model to another.
        """
        every = [each for each in seen if each.value > 0 and each.expected > 0]
        kinds: dict[str, list[_SeenBrick]] = {}
        for each in every:
            kinds.setdefault(each.kind, []).append(each)
        ran = _Shift.by(every, shared)
        mean = ran.shrunk(0.0, before)
        moved = mean - ran.mean
        means = {
            kind: moved + _Shift.by(found).shrunk(ran.mean, _FEW) for kind, found in kinds.items()
        }
        left = np.array([abs(_log_ratio([each]) - means[each.kind]) for each in every])
        weights = np.array([each.expected for each in every])
        spread = _NORMAL_MAD * _median(left, weights) if len(every) > _FEW else None
        return cls(mean, means, spread, ran.models)

    def factor(self, kind: str) -> float:
        """Factor of a kind; the factor of all kinds if no brick of the kind ran."""
        return float(np.exp(self.of_kinds.get(kind, self.mean)))


class _Shift(NamedTuple):
    """Shift of latencies that several models show together.

    Attributes:
        mean: Mean over models of the logarithm of their ratio. Models count by what is expected of
            their bricks.
        models: Number of equal models without a shared error that would determine it as well.
    """

    mean: float
    models: float

    @classmethod
    def by(cls, seen: Iterable[_SeenBrick], shared: float = 0.0) -> Self:
        """Shift that the models of some bricks show; arguments as for :meth:`_Ratios.of`."""
        sessions: dict[str, dict[str, list[_SeenBrick]]] = {}
        for each in seen:
            models = sessions.setdefault(each.run.session, {})
            models.setdefault(each.run.model, []).append(each)
        found = [cls._of_session(models.values(), shared) for models in sessions.values()]
        total = sum(each.models for each in found)
        mean = sum(each.models * each.mean for each in found) / total if found else 0.0
        return cls(mean, total)

    @classmethod
    def _of_session(cls, models: Collection[Sequence[_SeenBrick]], shared: float) -> Self:
        ratios = np.array([_log_ratio(bricks) for bricks in models])
        expected = np.array([sum(each.expected for each in bricks) for bricks in models])
        count = float(expected.sum() ** 2 / (expected**2).sum())
        return cls(float(np.average(ratios, weights=expected)), count / (1 + count * shared))

    def shrunk(self, towards: float, weight: float) -> float:
        """The mean, with another value that has the weight of a number of models."""
        total = self.models + weight
        return (self.models * self.mean + weight * towards) / total if total else towards


def _log_ratio(seen: Sequence[_SeenBrick]) -> float:
    """Logarithm of the ratio of what bricks take to what was expected of them."""
    return math.log(sum(each.value for each in seen) / sum(each.expected for each in seen))


def _median(values: FloatArray, weights: FloatArray) -> float:
    """Value below which half of the weight lies."""
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    middle = (passed - weights[order] / 2) / passed[-1]
    return float(np.interp(0.5, middle, values[order]))


_NORMAL_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def _corrected(ratios: _Ratios, kind: str, predicted: Predicted) -> Predicted:
    """A prediction times the factor of its kind, as precise as predictions proved to be."""
    factor = ratios.factor(kind)
    own: FloatArray = np.maximum(predicted.draws - predicted.overhead, 0.0)
    if ratios.spread is not None:
        logs = np.log(np.maximum(own, 1e-9))
        before, seen = max(float(logs.std()), 1e-9), max(ratios.spread, _LEAST_SPREAD)
        # Few models tell as little about errors as about factors.
        share = ratios.models / (ratios.models + _FEW)
        wanted = math.sqrt(share * seen**2 + (1 - share) * before**2)
        scale = min(wanted / before, 1.0)
        own = np.exp(logs.mean() + (logs - logs.mean()) * scale)
    shared = predicted.discrepancy
    common = min(shared.predicted, _LEAST_SPREAD)
    # What ran has set the spread, so that the factor no longer fits it.
    spread = shared.spread if ratios.spread is None else SpreadFactor()
    return replace(
        predicted,
        expected=predicted.own * factor,
        draws=own * factor,
        overhead=0.0,
        discrepancy=Discrepancy(common, shared.measured, spread),
    )
