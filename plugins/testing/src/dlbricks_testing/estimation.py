"""Conformance suites of composers, predictors and metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pytest

from dlbricks_core.backends import Backend, BackendSettings
from dlbricks_core.backends.burst import CALLS, next_to_nothing
from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.compose import Composer, Estimate, Plan
from dlbricks_core.figures import Figure, Measured, Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.measure import Metric
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.predict import Predictor
from dlbricks_testing.models import SETUP, SYSTEM, cut, figures, models
from dlbricks_testing.suite import ConformanceSuite, fresh

# Conformance suite of composers.

_REPLICATES = 5
"""Replicates of each value."""


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


# Conformance suite of predictors.


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


# Conformance suite of metrics.

_IMPORTED = """
import json, sys
from dlbricks_core.plugins import load_object
target, *modules = sys.argv[1:]
load_object(target)()
print(json.dumps({"imported": [m for m in modules if m in sys.modules]}))
"""


class MetricConformance(ConformanceSuite):
    """Conformance suite of a metric: observations in a worker, and how they compose.

    Attributes:
        plugin: The :class:`~dlbricks_core.measure.Metric` class. Required.
        backend: The :class:`~dlbricks_core.backends.Backend` class to observe on. Required.
        framework_modules: Modules of the backend's framework, which the metric must not import
            outside of a worker.
    """

    plugin: ClassVar[type[Metric]]
    backend: ClassVar[type[Backend]]
    framework_modules: ClassVar[tuple[str, ...]] = ()

    kind: ClassVar[str] = "metric"
    required: ClassVar[tuple[str, ...]] = ("plugin", "backend")

    @pytest.fixture
    @classmethod
    def worker(cls) -> Iterator[BackendWorker]:
        """A worker process such as the metric observes in."""
        metric = cls.plugin()
        settings = WorkerSettings(
            BackendSettings(threads=1),
            keeps_memory=not (metric.isolated or metric.in_sequence),
            warm=not metric.in_sequence,
            as_used=metric.isolated,
        )
        target = f"{cls.backend.__module__}:{cls.backend.__qualname__}"
        with BackendWorker(target, cls.backend(), settings) as worker:
            yield worker

    def test_the_quantity_is_described(self) -> None:
        """Quantity and parts have names of their own, and a meaning of one line."""
        described = (self.plugin.quantity, *self.plugin.parts)
        assert len({each.name for each in described}) == len(described)
        for each in described:
            assert each.meaning
            assert "\n" not in each.meaning + each.unit

    def test_the_metric_needs_no_framework(self) -> None:
        """Lists of plugins and estimates without runs import the metric, and no framework."""
        assert fresh(_IMPORTED, self.target(), *self.framework_modules)["imported"] == []

    def test_bricks_are_observed(self, worker: BackendWorker) -> None:
        """An observation of a brick has a value of the quantity and of each part."""
        for brick in list(cut().bricks.values())[:2]:
            values = worker.observe(self.plugin().target, brick.model, whole=False)
            assert len(values) == 1 + len(self.plugin.parts)

    def test_whole_models_are_observed(self, worker: BackendWorker) -> None:
        """An observation of a model has all these values, or that of the quantity alone."""
        for model in models():
            values = worker.observe(self.plugin().target, model, whole=True)
            assert len(values) in (1, 1 + len(self.plugin.parts))

    def test_a_network_of_next_to_no_work_is_observed(self, worker: BackendWorker) -> None:
        """It shows the fixed cost of an observation."""
        for layers in CALLS.values():
            network = next_to_nothing(layers)
            values = worker.observe(self.plugin().target, network, whole=False)
            assert len(values) == 1 + len(self.plugin.parts)

    def test_a_network_is_observed_again(self, worker: BackendWorker) -> None:
        """The worker is ready for further observations: all loaded networks are unloaded."""
        if self.plugin.isolated:
            pytest.skip("each observation has a process of its own")
        for _ in range(3):
            assert worker.observe(self.plugin().target, models()[0], whole=False)

    def test_each_replicate_stands_for_itself(self) -> None:
        """The total of several replicates is the total of each: they may not be mixed."""
        metric = self.plugin()
        random = np.random.default_rng(0)
        for model in cut().models:
            values = [
                {s: random.uniform(1, 2, _REPLICATES) / place for s in model.counts}
                for place in range(1, 2 + len(metric.parts))
            ]
            together = np.broadcast_to(metric.total(model, values), _REPLICATES)
            for i in range(_REPLICATES):
                alone = metric.total(
                    model, [{s: v[i : i + 1] for s, v in each.items()} for each in values]
                )
                assert alone == pytest.approx(together[i : i + 1])

    def test_models_are_composed(self) -> None:
        """A model whose bricks are known has an estimate, and each part has one."""
        for model in cut().models:
            known = [self._known(model.counts) for _ in (self.plugin.quantity, *self.plugin.parts)]
            estimate = self.plugin().estimate(model, known)
            assert not estimate.partial
            assert estimate.value is not None
            assert 0 <= estimate.value < np.inf
            parts = self.plugin().estimate_parts(model, known[1:])
            assert list(parts) == list(self.plugin.parts)

    def test_a_brick_without_a_figure_makes_the_estimate_partial(self) -> None:
        """The estimate names the missing brick: unknown is never zero."""
        for model in cut().models:
            lost = model.occurrences[0].signature
            known = {s: n for s, n in model.counts.items() if s != lost}
            figures = [self._known(known) for _ in (self.plugin.quantity, *self.plugin.parts)]
            assert self.plugin().estimate(model, figures).missing == (lost,)

    def _known(self, signatures: Mapping[str, int]) -> dict[str, Measured]:
        return {s: Measured((1.0, 1.1, 1.2), self.plugin().protocol) for s in signatures}
