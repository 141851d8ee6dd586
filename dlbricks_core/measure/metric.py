"""Metrics: each observes one quantity other than latency and composes it for whole models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dlbricks_core.backends import CpuTimer
from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.errors import UnknownPluginError
from dlbricks_core.facts import LATENCY, Composition, Quantity
from dlbricks_core.figures.figure import RESAMPLES, Figure, interval
from dlbricks_core.figures.protocols import Protocol
from dlbricks_core.figures.statistics import FloatArray, faster_half
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.plugins import find, use
from dlbricks_core.wording import clone_install

Values = Mapping[str, FloatArray]
"""Values of a model's bricks without the overhead, by signature: arrays of shape (n,), one element
for each replicate. Bricks without observations are missing.
"""


class Metric(ABC):
    """Observes one quantity in a worker, and composes a model's value from its bricks' values.

    Found through the entry-point group ``dlbricks.metrics``. The class must be importable without a
    framework: only :meth:`observe` runs in a worker with the backend's framework.

    Example:
        >>> class Runs(Metric):
        ...     quantity = Quantity("first-run", "ms", Composition.SUM, "time of the first run")
        ...     def observe(self, timer, model, seed): ...
    """

    #: The observed quantity; its name is the entry point's name.
    quantity: Quantity
    #: Further quantities of each observation, for :meth:`total`.
    parts: Sequence[Quantity] = ()
    #: Version of the metric. Raise it with every change that changes values of a network: stored #:
    #: values of other versions are not used.
    version: int = 1
    #: Default number of observations of each network.
    runs: int = 5
    #: Whether each observation gets a separate worker process, with the memory allocator in its #:
    #: default state and the backend's settings for users (:meth:`Backend.as_used`).
    isolated: bool = False
    #: Whether the bricks of a round are observed one after the other in one new process, and each
    #: whole model in another. The process has run no other network, and holds one metric object.
    in_sequence: bool = False
    #: Positions in :meth:`sizes` of sizes whose sum may be a lower bound of a whole model's value.
    #: #: If observed models confirm it, a prediction is at least a multiple of this sum.
    least: Sequence[int] = ()

    #: Attribute that :func:`dlbricks_core.plugins.find` compares with the entry point's name.
    name: str = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        quantity: Quantity | None = getattr(cls, "quantity", None)
        if quantity is None:
            return
        cls.name = quantity.name
        own_total = cls.total is not Metric.total
        if quantity.composition is Composition.PEAK and not cls.parts and not own_total:
            raise TypeError(
                f"{cls.__name__}: the first part of a peak must be the amount that bricks keep"
            )

    @abstractmethod
    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> Sequence[float]:
        """One observation of a brick or a whole model; runs in a worker.

        Before the call, the framework was imported, the garbage collector was switched off, and
        small networks ran, unless the metric observes in sequence. The method must unload every
        network that it loads.

        Args:
            timer: The backend's timer.
            model: The network, in canonical form.
            seed: Seed of weights and inputs, for :func:`dlbricks_core.values.materialize`.

        Returns:
            Value of the quantity, then the value of each part; 0 or more.
        """

    def observe_whole(
        self, timer: CpuTimer[Any], model: CanonicalModel, seed: int
    ) -> Sequence[float]:
        """One observation of a whole model; by default as of a brick.

        Args:
            timer: As for :meth:`observe`.
            model: As for :meth:`observe`.
            seed: As for :meth:`observe`.

        Returns:
            As for :meth:`observe`, or the quantity's value alone if the parts of a single network
            cannot be observed.
        """
        return self.observe(timer, model, seed)

    def sizes(self, model: CanonicalModel) -> Sequence[float]:
        """Sizes that determine the value of a whole model; empty if none are known.

        A model without observations is predicted from the well-known models of the package: as a
        constant plus a multiple of each size, with the lower bound of :attr:`least`.

        Args:
            model: A model whose sizes are all known.
        """
        return ()

    def total(self, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """Value of a model, by the quantity's composition.

        A sum counts each brick as often as it occurs. A peak has two terms: the sum of the first
        part, which all bricks keep, and the maximum of a brick's further amount.

        Args:
            cut: The model and its bricks.
            values: For the quantity, then for each part: values of the bricks.

        Returns:
            Array of shape (n,), or (1,).
        """
        return _TOTALS[self.quantity.composition](cut, values)

    def estimate(self, cut: CutModel, figures: Sequence[Mapping[str, Figure]]) -> Estimate:
        """Estimate of a model, with a 90% interval that covers the scatter of the observations.

        The overhead of an observation, common to all networks, is subtracted from each brick and
        added once.

        Args:
            cut: The model and its bricks.
            figures: For the quantity, then for each part: figures of bricks, by signature.
        """
        return _estimate(cut, figures, partial(self.total, cut))

    def estimate_parts(
        self, cut: CutModel, figures: Sequence[Mapping[str, Figure]]
    ) -> Mapping[Quantity, Estimate]:
        """Estimate of each part of a model: the sum over its bricks, their maximum, or neither.

        Args:
            cut: The model and its bricks.
            figures: For each part: figures of bricks, by signature.
        """
        return {
            part: _estimate(cut, [each, *figures], partial(self._part_of_all, part, cut))
            for part, each in zip(self.parts, figures, strict=True)
        }

    def _part_of_all(self, part: Quantity, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        return self.part_total(part, cut, values[1:])

    def part_total(self, part: Quantity, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """Value of a part of a model, by the part's composition.

        Args:
            part: One of :attr:`parts`.
            cut: The model and its bricks.
            values: For each part: values of the bricks.

        Returns:
            Array of shape (n,), or (1,).
        """
        return _PARTS[part.composition](cut, [values[self.parts.index(part)]])

    @property
    def protocol(self) -> Protocol:
        """Protocol of the metric: one observation in each round, a fixed number of rounds."""
        return Protocol(
            name=self.name,
            identity=f"{self.name}/{self.version}",
            runs=self.runs,
            interleaved=True,
            warm_io=False,
            statistic=faster_half,
            statistic_name="mean of the lower half",
        )

    @property
    def target(self) -> str:
        """The class as ``"module:Class"``, for a worker to import."""
        return f"{type(self).__module__}:{type(self).__qualname__}"


def _estimate(
    cut: CutModel,
    figures: Sequence[Mapping[str, Figure]],
    total: Callable[[Sequence[Values]], FloatArray],
) -> Estimate:
    """Estimate of a model from figures of its bricks, with the overhead added once."""
    missing = tuple(s for s in cut.counts if not all(s in each for each in figures))
    known = [s for s in cut.counts if s not in missing]
    if not known:
        return Estimate(None, None, missing)
    overhead = max(figures[0][signature].overhead for signature in known)

    def composed(values: Callable[[Figure], FloatArray]) -> FloatArray:
        own = [
            {s: np.maximum(values(each[s]) - each[s].overhead, 0.0) for s in known}
            for each in figures
        ]
        return overhead + np.broadcast_to(total(own), RESAMPLES)

    draws = composed(lambda figure: figure.plausible)
    value = float(composed(lambda figure: np.array([figure.value]))[0])
    scatter = interval(composed(lambda figure: figure.replicates), value)
    return Estimate(value, interval(draws, value), missing, scatter, draws)


def added_up(cut: CutModel, values: Values) -> FloatArray:
    """Sum over all bricks of a model, weighted by their occurrences."""
    return sum((cut.counts[s] * each for s, each in values.items()), np.zeros(1))


def largest(values: Values) -> FloatArray:
    """The largest of several bricks' values, for each replicate."""
    most = np.zeros(1)
    for each in values.values():
        most = np.maximum(most, each)
    return most


def _sum(cut: CutModel, values: Sequence[Values]) -> FloatArray:
    return added_up(cut, values[0])


def _peak(cut: CutModel, values: Sequence[Values]) -> FloatArray:
    peaks, kept = values[0], values[1]
    return added_up(cut, kept) + largest({s: peaks[s] - kept[s] for s in peaks})


def _nothing(_cut: CutModel, _values: Sequence[Values]) -> FloatArray:
    return np.zeros(1)


_TOTALS: dict[Composition, Callable[[CutModel, Sequence[Values]], FloatArray]] = {
    Composition.SUM: _sum,
    Composition.PEAK: _peak,
    Composition.ONCE: _nothing,
}


_PARTS: dict[Composition, Callable[[CutModel, Sequence[Values]], FloatArray]] = {
    Composition.SUM: _sum,
    Composition.PEAK: lambda _cut, values: largest(values[0]),
    Composition.ONCE: _nothing,
}


DISTRIBUTED = frozenset({"cold-start", "load-time", "peak-memory"})
"""Quantities whose metrics are in a distribution of DLBricks itself."""


def find_metric(name: str) -> Metric:
    """The metric for a quantity.

    Raises:
        UnknownPluginError: If the quantity has no metric.
        PluginError: If the metric is broken.
    """
    try:
        plugin = find("metric", name, Metric)
    except UnknownPluginError as error:
        if name in DISTRIBUTED:
            raise UnknownPluginError(
                f"the quantity {name} comes with dlbricks-quantities, which is not installed",
                hint=clone_install("plugins/prediction", "plugins/quantities"),
            ) from error
        hint = f"{LATENCY.name} needs no metric. {error.hint}"
        raise UnknownPluginError(f"unknown quantity {name!r}", hint=hint) from error
    metric: Metric = use(plugin, plugin.loaded)
    return metric
