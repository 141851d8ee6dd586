"""Result for one model: its estimate beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.facts import Quantity
from dlbricks_core.figures.figure import Figure, Origin
from dlbricks_core.workflows.footprint import Footprint


@dataclass(frozen=True)
class Compared:
    """An estimate beside what was measured.

    Attributes:
        estimate: The estimate.
        measured: Figure of the same thing; ``None`` if it was not measured.
    """

    estimate: Estimate
    measured: Figure | None = None

    @property
    def normalized(self) -> float | None:
        """Estimate over measurement; ``None`` if one is missing or partial, or 0 was measured."""
        if self.measured is None or self.estimate.value is None or self.estimate.partial:
            return None
        return self.estimate.value / self.measured.value if self.measured.value else None

    @property
    def normalized_interval(self) -> tuple[float, float] | None:
        """The estimate's interval over the measurement; ``None`` as for ``normalized``."""
        ends = self.estimate.interval
        if self.measured is None or self.normalized is None or ends is None:
            return None
        return ends[0] / self.measured.value, ends[1] / self.measured.value


@dataclass(frozen=True)
class PartResult:
    """Result for one part of a quantity of a model.

    Attributes:
        quantity: The part.
        compared: Its estimate beside what was measured of the whole model.
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
        unsupported: Those of the missing bricks that the backend does not support.
        failure: Reason why the whole model was not measured; empty if it was, or was not meant to
            be.
        notes: Remarks on the figures.
        origin: Shares of the sum over the known bricks by where their figures come from, without
            the timer's own cost. They add up to 1; empty if no brick is known.
        composer: Name of the composer behind ``estimate``; empty for a quantity's own way.
        parts: Parts of the quantity, where its probe has any.
        memory: Memory that the whole model takes; ``None`` where sizes are known only in a run.
    """

    cut: CutModel
    estimate: Estimate
    parallel: Estimate
    measured: Figure | None = None
    native: Figure | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    notes: Sequence[str] = ()
    origin: Mapping[Origin, float] = field(default_factory=dict)
    composer: str = ""
    parts: Sequence[PartResult] = ()
    memory: Footprint | None = None

    @property
    def compared(self) -> Compared:
        """The estimate beside the measurement."""
        return Compared(self.estimate, self.measured)

    @property
    def normalized(self) -> float | None:
        """Estimate over measurement, as in :class:`Compared`."""
        return self.compared.normalized

    @property
    def normalized_interval(self) -> tuple[float, float] | None:
        """The estimate's interval over the measurement, as in :class:`Compared`."""
        return self.compared.normalized_interval
