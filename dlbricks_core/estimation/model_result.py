"""Result for one model: its estimate and its measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.facts import Note, Quantity
from dlbricks_core.figures.figure import Figure, Origin
from dlbricks_core.figures.statistics import QUIET, Disturbance
from dlbricks_core.measure.footprint import Footprint


@dataclass(frozen=True)
class Compared:
    """An estimate and a measurement.

    Attributes:
        estimate: The estimate.
        measured: The measured figure; ``None`` if it is missing.
        same: Whether the estimate is the measured figure, because the model itself ran.
    """

    estimate: Estimate
    measured: Figure | None = None
    same: bool = False

    @property
    def normalized(self) -> float | None:
        """Estimate divided by measurement.

        It is ``None`` if one of the two is missing or partial, if both are the same, or if the
        measurement is 0.
        """
        if self.same or self.measured is None:
            return None
        if self.estimate.value is None or self.estimate.partial:
            return None
        return self.estimate.value / self.measured.value if self.measured.value else None

    @property
    def normalized_interval(self) -> tuple[float, float] | None:
        """The estimate's interval relative to the measurement; ``None`` as for ``normalized``.

        Both are for the same hour.
        """
        ends = self.estimate.interval_now
        if self.measured is None or self.normalized is None or ends is None:
            return None
        return ends[0] / self.measured.value, ends[1] / self.measured.value


@dataclass(frozen=True)
class PartResult:
    """Result for one part of a quantity of a model.

    Attributes:
        quantity: The part.
        compared: Estimate of the part, and its measurement in the whole model.
    """

    quantity: Quantity
    compared: Compared


@dataclass(frozen=True)
class ModelResult:
    """Result for one model.

    Attributes:
        cut: The model and its bricks.
        estimate: Estimate by the request's composer.
        parallel: Estimate of the critical path.
        measured: Figure of the whole model, if it was measured.
        native: Figure of the model in its framework's own form, if the backend is that framework.
        missing: Reason for each brick without a figure, by signature.
        unsupported: Missing bricks that the backend does not support.
        failure: Reason why measuring the whole model failed; empty if it succeeded or was not
            requested.
        notes: Remarks on the figures.
        origin: Shares of the sum over the known bricks by the origin of their figures, without the
            call of the timer. The shares add up to 1; empty if no brick is known.
        composer: Name of the composer behind ``estimate``; empty for a quantity composed by its
            metric.
        parts: Parts of the quantity, if its metric has parts.
        memory: Memory footprint of the whole model; ``None`` if sizes are unknown before a run.
        disturbance: Disturbance of the samples behind the estimate and the measured figure.
        is_measurement: Whether the model itself ran, so that the estimate is its measured latency.
    """

    cut: CutModel
    estimate: Estimate
    parallel: Estimate
    measured: Figure | None = None
    native: Figure | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    notes: Sequence[Note] = ()
    origin: Mapping[Origin, float] = field(default_factory=dict)
    composer: str = ""
    parts: Sequence[PartResult] = ()
    memory: Footprint | None = None
    disturbance: Disturbance = QUIET
    is_measurement: bool = False

    @property
    def compared(self) -> Compared:
        """The estimate and the measurement."""
        return Compared(self.estimate, self.measured, self.is_measurement)

    @property
    def normalized(self) -> float | None:
        """Estimate divided by measurement, as in :class:`Compared`."""
        return self.compared.normalized

    @property
    def normalized_interval(self) -> tuple[float, float] | None:
        """The estimate's interval divided by the measurement, as in :class:`Compared`."""
        return self.compared.normalized_interval
