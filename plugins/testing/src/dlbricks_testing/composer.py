"""Conformance suite of composers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Composer, Estimate, Plan
from dlbricks_core.figures import Figure
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_testing.models import SETUP, SYSTEM, cut, figures
from dlbricks_testing.suite import ConformanceSuite

_REPLICATES = 5
"""Replicates of each cost."""


class ComposerConformance(ConformanceSuite):
    """Conformance suite of a composer: its plan, its total, and its estimates. Nothing runs.

    Attributes:
        plugin: The :class:`~dlbricks_core.compose.Composer` class. Required.
    """

    plugin: ClassVar[type[Composer]]
    framework_modules: ClassVar[tuple[str, ...]] = ()

    kind: ClassVar[str] = "composer"
    required: ClassVar[tuple[str, ...]] = ("plugin",)

    @cached_property
    def composer(self) -> Composer:
        """The composer under test."""
        return self.plugin()

    @cached_property
    def bricks(self) -> BrickSet:
        """Two small models, cut as the composer says."""
        return cut(self.composer.granularity, self.composer.strategy)

    def test_the_plan_has_recipes_for_the_bricks_of_the_set(self) -> None:
        """Every brick has a recipe, and no other network has one."""
        assert self._plan().recipes.keys() == self.bricks.bricks.keys()

    def test_the_plan_is_the_same_each_time(self) -> None:
        """Equal bricks give an equal choice of timed bricks: stored measurements are used again."""
        assert self._plan().timed.keys() == self._plan().timed.keys()

    def test_the_plan_of_no_bricks_is_empty(self) -> None:
        """No bricks need no timing."""
        plan = self.composer.plan({}, SETUP, SYSTEM)
        assert not plan.timed
        assert not plan.recipes

    def test_every_figure_follows_from_what_is_timed(self) -> None:
        """With everything timed, each brick has a figure, and each model a whole estimate."""
        for estimate in self._estimates(self._known()):
            assert not estimate.partial
            assert estimate.value is not None
            assert estimate.interval is not None
            assert 0 < estimate.value < np.inf
            low, high = estimate.interval
            assert 0 <= low <= high < np.inf

    def test_a_brick_without_a_figure_makes_the_estimate_partial(self) -> None:
        """The estimate names the missing brick: unknown is never zero."""
        known = self._known()
        for model in self.bricks.models:
            lost = model.occurrences[0].signature
            found = self.composer.compose(model, {s: f for s, f in known.items() if s != lost})
            assert found.missing == (lost,)

    def test_each_replicate_stands_for_itself(self) -> None:
        """The total of several replicates is the total of each: they may not be mixed."""
        random = np.random.default_rng(0)
        for model in self.bricks.models:
            costs = {s: random.uniform(1, 2, _REPLICATES) for s in model.counts}
            together = self.composer.total(model, costs)
            assert together.shape == (_REPLICATES,)
            for i in range(_REPLICATES):
                alone = self.composer.total(model, {s: c[i : i + 1] for s, c in costs.items()})
                assert alone == pytest.approx(together[i : i + 1])

    def test_a_total_does_not_change_the_costs(self) -> None:
        """Costs of bricks belong to the caller."""
        for model in self.bricks.models:
            costs: dict[str, FloatArray] = {s: np.ones(_REPLICATES) for s in model.counts}
            self.composer.total(model, costs)
            assert costs.keys() == model.counts.keys()
            assert all((each == 1).all() for each in costs.values())

    def test_slower_bricks_make_no_faster_model(self) -> None:
        """With each brick twice as slow, a model is at least as slow as before."""
        for model in self.bricks.models:
            once = self.composer.total(model, {s: np.ones(1) for s in model.counts})
            twice = self.composer.total(model, {s: np.full(1, 2.0) for s in model.counts})
            assert twice >= once

    def _plan(self) -> Plan:
        return self.composer.plan(self.bricks.bricks, SETUP, SYSTEM)

    def _known(self) -> Mapping[str, Figure]:
        """Figures that are derived from figures of the timed bricks."""
        plan = self._plan()
        return plan.figures(figures(plan.timed))

    def _estimates(self, known: Mapping[str, Figure]) -> list[Estimate]:
        return [self.composer.compose(model, known) for model in self.bricks.models]
