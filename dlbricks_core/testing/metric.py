"""Conformance suite of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pytest

from dlbricks_core.backends import Backend, BackendSettings
from dlbricks_core.backends.burst import CALLS, next_to_nothing
from dlbricks_core.figures import Measured
from dlbricks_core.measure import Metric
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.testing.models import cut, models
from dlbricks_core.testing.suite import ConformanceSuite, fresh

_REPLICATES = 5

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
