"""Conformance suite of predictors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pytest

from dlbricks_core.bricks import Brick
from dlbricks_core.figures import Predicted
from dlbricks_core.predict import Predictor
from dlbricks_testing.models import SETUP, SYSTEM, cut, figures
from dlbricks_testing.suite import ConformanceSuite


class PredictorConformance(ConformanceSuite):
    """Conformance suite of a predictor: figures with and without known ones. Nothing runs.

    Whether 90% of the intervals contain the measured latency is for the predictor's own tests: it
    needs measurements.

    Attributes:
        plugin: The :class:`~dlbricks_core.predict.Predictor` class. Required.
    """

    plugin: ClassVar[type[Predictor]]
    framework_modules: ClassVar[tuple[str, ...]] = ()

    kind: ClassVar[str] = "predictor"
    required: ClassVar[tuple[str, ...]] = ("plugin",)

    @cached_property
    def bricks(self) -> Mapping[str, Brick]:
        """Bricks of two small models, by signature."""
        return MappingProxyType(cut().bricks)

    @cached_property
    def known(self) -> Collection[str]:
        """Signatures of the bricks with a figure: every other one."""
        return list(self.bricks)[::2]

    def test_bricks_are_predicted_from_others(self) -> None:
        """With half of the bricks known, at least one of the others has a figure."""
        assert self._predicted(self.known).keys() - set(self.known)

    def test_only_bricks_that_were_given_are_predicted(self) -> None:
        """No figure is of another network."""
        assert self._predicted(self.known).keys() <= self.bricks.keys()

    def test_figures_are_positive(self) -> None:
        """An expected latency is a positive number; a brick without one is left out."""
        for figure in self._predicted(self.known).values():
            assert isinstance(figure, Predicted)
            assert 0 < figure.expected < np.inf

    def test_predictions_are_uncertain(self) -> None:
        """Draws of a brick that nobody measured differ: no prediction is certain."""
        found = self._predicted(self.known)
        for signature in found.keys() - set(self.known):
            assert np.ptp(found[signature].draws) > 0

    def test_draws_lie_around_what_is_expected(self) -> None:
        """The expected latency is within the 90% interval of the draws."""
        found = self._predicted(self.known)
        for signature in found.keys() - set(self.known):
            low, high = np.percentile(found[signature].draws, (5, 95))
            assert low <= found[signature].expected <= high

    def test_predictions_are_the_same_each_time(self) -> None:
        """Equal questions have equal answers, draw by draw."""
        once, twice = self._predicted(self.known), self._predicted(self.known)
        assert once.keys() == twice.keys()
        for signature, figure in once.items():
            assert figure.expected == twice[signature].expected
            assert (figure.draws == twice[signature].draws).all()

    def test_the_order_of_bricks_does_not_matter(self) -> None:
        """Expected latencies are those of bricks in any other order."""
        there = self._predicted(self.known)
        back = self._predicted(self.known, list(self.bricks)[::-1])
        assert {s: each.expected for s, each in back.items()} == pytest.approx(
            {s: each.expected for s, each in there.items()}
        )

    def test_a_slower_system_has_slower_bricks(self) -> None:
        """Known bricks that take ten times as long make no other brick faster."""
        fast, slow = self._predicted(self.known), self._predicted(self.known, factor=10.0)
        for signature in fast.keys() & slow.keys():
            assert slow[signature].expected >= fast[signature].expected

    def test_without_any_measurement_it_does_not_fail(self) -> None:
        """Without known figures, predictions are left out or rest on shipped data."""
        assert self._predicted(()).keys() <= self.bricks.keys()

    def test_no_bricks_have_no_figures(self) -> None:
        """Nothing to predict is no error."""
        assert not self.plugin().predict({}, SETUP, SYSTEM, {})

    def _predicted(
        self, known: Collection[str], order: Collection[str] = (), factor: float = 1.0
    ) -> Mapping[str, Predicted]:
        """Figures in a new instance of the predictor."""
        bricks = {signature: self.bricks[signature] for signature in order or self.bricks}
        given = figures(self.bricks, (s for s in bricks if s in known), factor)
        return self.plugin().predict(
            MappingProxyType(bricks), SETUP, SYSTEM, MappingProxyType(given)
        )
