"""Bricks that no running model has shown: predicted, and corrected by those that were seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dlbricks_core.figures.figure import Discrepancy, InPlace, Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict import Contribution
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.knowledge import knowledge
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.oracle import Oracle
from dlbricks_core.workflows.request import Request

_FEW = 5.0
"""Number of bricks of a kind that weigh as much as all other kinds together."""

_LEAST_SPREAD = 0.1
"""Least standard deviation of the logarithm of a prediction's error, however well predictions fit
the bricks that were seen."""


class Unknown:
    """Predicts bricks from the reference data and the store.

    Args:
        cutting: The models and their bricks.
        request: How bricks are timed alone, on which predictions rest.
        store: Store of the measurements.
        observer: Receives the progress.
        predictor: Name of the predictor.
    """

    def __init__(
        self,
        cutting: Cutting,
        request: Request,
        store: ResultStore,
        observer: Observer,
        predictor: str,
    ) -> None:
        self._bricks = cutting.brickset.bricks
        self._request = request
        self._store = store
        self._observer = observer
        self._predictor = predictor
        self._predicted: dict[str, Predicted] = {}

    @cached_property
    def _contributions(self) -> Sequence[Contribution]:
        return knowledge(self._store, self._request.setup.backend)

    @cached_property
    def _oracle(self) -> Oracle:
        return Oracle(self._predictor, self._request, self._contributions, ())

    @property
    def system_is_known(self) -> bool:
        """Whether anything was measured on this system, with the backend and as many threads."""
        place = self._request.fingerprint, self._request.setup.threads
        return any(
            (each.system.fingerprint, each.setup.threads) == place for each in self._contributions
        )

    def figures(
        self, signatures: Collection[str], seen: Mapping[str, InPlace]
    ) -> Mapping[str, Predicted]:
        """Figures of bricks by signature.

        Args:
            signatures: Signatures of the bricks.
            seen: Figures of bricks inside of running models, by signature.
        """
        also = [s for s in seen if s in self._bricks]
        asked = [s for s in (*signatures, *also) if s not in self._predicted]
        if asked:
            self._observer.stage(f"Predicting {len(asked)} bricks")
            bricks = {s: self._bricks[s] for s in asked if not self._bricks[s].opaque}
            self._predicted |= self._oracle.figures(bricks, {})
        found = {s: self._predicted[s] for s in signatures if s in self._predicted}
        compared = {s: (self._predicted[s], seen[s]) for s in also if s in self._predicted}
        if not compared:
            return found
        correction = _Correction({s: self._kind(s) for s in compared}, compared)
        return {s: correction.corrected(self._kind(s), each) for s, each in found.items()}

    def _kind(self, signature: str) -> str:
        """Operator of a brick's first layer that computes most."""
        operators = self._bricks[signature].operators
        return next((each for each in operators if each in _HEAVY), operators[0])


_HEAVY = frozenset(
    {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "Attention", "Einsum"}
)


class _Correction:
    """Factors from predictions to what running models show, for each kind of brick.

    Means of logarithms, each shrunk towards the mean over all kinds (random effects).

    Args:
        kinds: Kind of each brick, by signature.
        compared: Prediction and latency in place of each brick, by signature.
    """

    def __init__(
        self, kinds: Mapping[str, str], compared: Mapping[str, tuple[Predicted, InPlace]]
    ) -> None:
        ratios: dict[str, list[float]] = {}
        for signature, (predicted, shown) in compared.items():
            if predicted.own > 0 and shown.value > 0:
                ratio = float(np.log(shown.value / predicted.own))
                ratios.setdefault(kinds[signature], []).append(ratio)
        every = np.concatenate([*map(np.asarray, ratios.values()), np.zeros(0)])
        self._mean = float(np.median(every)) if every.size else 0.0
        self._factors = {
            kind: (sum(each) + _FEW * self._mean) / (len(each) + _FEW)
            for kind, each in ratios.items()
        }
        errors = [r - self._factors[kind] for kind, each in ratios.items() for r in each]
        self._spread = float(np.median(np.abs(errors))) * 1.48 if len(errors) > _FEW else None

    def corrected(self, kind: str, predicted: Predicted) -> Predicted:
        """A prediction times the factor of its kind."""
        factor = float(np.exp(self._factors.get(kind, self._mean)))
        draws: FloatArray = np.asarray(predicted.draws)
        overhead = predicted.overhead
        own = np.maximum(draws - overhead, 0.0)
        if self._spread is not None:
            logs = np.log(np.maximum(own, 1e-9))
            spread = float(logs.std())
            wanted = max(self._spread, _LEAST_SPREAD)
            scale = wanted / spread if spread > wanted else 1.0
            own = np.exp(logs.mean() + (logs - logs.mean()) * scale)
        common = Discrepancy(min(predicted.discrepancy.predicted, _LEAST_SPREAD),
                             predicted.discrepancy.measured)  # fmt: skip
        return replace(
            predicted,
            expected=predicted.own * factor,
            draws=own * factor,
            overhead=0.0,
            discrepancy=common,
        )
