"""Predictors together with all measurements that they may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Note
from dlbricks_core.figures.figure import Figure
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.measure.request import Request
from dlbricks_core.operators.domains import as_run_by
from dlbricks_core.plugins import use
from dlbricks_core.predict import MeasuredNetworks, Predictor, find_predictor
from dlbricks_core.store import ResultStore


def training_data(predictor: str, store: ResultStore, backend: str) -> Sequence[MeasuredNetworks]:
    """Measurements that a predictor learns from.

    Args:
        predictor: Name of the predictor.
        store: Store of the measurements.
        backend: Name of the backend.

    Raises:
        PluginError: If there is no such predictor, or it is broken.
    """
    plugin = find_predictor(predictor)
    return use(plugin, lambda: (*plugin.loaded().training_data(store, backend),))


class ConditionedPredictor:
    """A predictor together with the measurements that it uses.

    Args:
        predictor: Name of the predictor.
        request: How and where networks run.
        atlas: Measurements on this and on other systems.
        apart: Signatures of networks to leave out of the store's own contribution, because their
            figures are passed separately, or must stay unknown.

    Raises:
        PluginError: If there is no such predictor, or it is broken.
    """

    def __init__(
        self,
        predictor: str,
        request: Request,
        atlas: Collection[MeasuredNetworks],
        apart: Collection[str],
    ) -> None:
        self._plugin = find_predictor(predictor)
        self._predictor: Predictor = use(self._plugin, self._plugin.loaded)
        self._request = request
        self._every = tuple(atlas)
        left = (_without(each, frozenset(apart), request) for each in atlas)
        self._atlas = tuple(each for each in left if each is not None)

    def figures(
        self, bricks: Mapping[str, Brick], known: Mapping[str, Figure]
    ) -> Mapping[str, Predicted]:
        """Figures of bricks by signature, including the call of the timer like measured figures.

        Args:
            bricks: Bricks by signature, including bricks with known figures.
            known: Figures measured under the request's setup on its system, by signature.

        Raises:
            PluginError: If the predictor fails, or returns an invalid figure.
        """
        if not bricks:
            return {}
        setup, system = self._request.setup, self._request.target
        asked = self._as_run(bricks)

        def predict() -> Mapping[str, Predicted]:
            found = self._predictor.predict(asked, setup, system, known, self._atlas)
            for signature, figure in found.items():
                if not isinstance(figure, Predicted):
                    raise TypeError(f"{figure!r} for brick {signature} is not a predicted figure")
            return {signature: found[signature] for signature in bricks if signature in found}

        found = use(self._plugin, predict)
        call_ms = self._call_ms(known)
        return {signature: _with_call(each, call_ms) for signature, each in found.items()}

    def doubts(self, bricks: Mapping[str, Brick]) -> Sequence[Note]:
        """Notes on predicted bricks, or on the system, that differ from everything measured.

        Args:
            bricks: The predicted bricks by signature.

        Raises:
            PluginError: If the predictor fails.
        """
        request, asked = self._request, [*self._as_run(bricks).values()]
        setup, system, here = request.setup, request.target, not request.elsewhere
        return use(
            self._plugin,
            lambda: (*self._predictor.doubts(asked, setup, system, self._every, here=here),),
        )

    def _as_run(self, bricks: Mapping[str, Brick]) -> dict[str, Brick]:
        """Bricks with the layers that the backend runs."""
        domains = self._request.backend.traits.domains
        return {s: Brick(s, as_run_by(domains, brick.model)) for s, brick in bricks.items()}

    def _call_ms(self, known: Mapping[str, Figure]) -> float:
        """Cost of a call of the timer in milliseconds: from this system if measured, or another."""
        here = [figure.overhead for figure in known.values()]
        if here:
            return float(np.median(here))
        fingerprint = self._request.fingerprint
        same = [each for each in self._atlas if each.system.fingerprint == fingerprint]
        costs = np.concatenate([np.zeros(0), *(each.call_ms for each in same or self._atlas)])
        return float(np.median(costs)) if costs.size else 0.0


def _with_call(figure: Predicted, call_ms: float) -> Predicted:
    """A figure including the call of the timer, like measured figures."""
    if figure.overhead:
        return figure
    return replace(
        figure, expected=figure.expected + call_ms, draws=figure.draws + call_ms, overhead=call_ms
    )


def _without(
    networks: MeasuredNetworks, signatures: frozenset[str], request: Request
) -> MeasuredNetworks | None:
    """Measured networks without some, if they were measured here, so that each counts once."""
    here = networks.system.fingerprint == request.fingerprint
    same = here and networks.setup.threads == request.setup.threads
    return networks.without(signatures) if same else networks
