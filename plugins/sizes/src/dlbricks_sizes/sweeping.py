"""Sweeps: the latency of a model over sizes of its open dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_core.errors import ModelError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.passes.options import OpenDimension
from dlbricks_sizes.answers import SizeCurve, SizePoint
from dlbricks_sizes.figures import AnswersAndCurves
from dlbricks_sizes.joint import with_joint_fit
from dlbricks_sizes.loading import Sized, SizedModel
from dlbricks_sizes.notes import note
from dlbricks_sizes.sizing import (
    BATCH,
    Axes,
    Sizes,
    by_dimension,
    check_axes,
    grid,
    opened,
)

_SEEN = note("sizes-ran-before", most_times=1.7)
"""Note on the first run at a size, and how much longer it takes at most than later ones
(research/2026-11-29-values.md)."""


@dataclass(frozen=True)
class Sweep(Sized):
    """Request for models over sizes of their open dimensions.

    Attributes:
        axes: Sizes by the names of dimensions; ``batch`` means all batch axes. Several names with
            commas between have tuples of sizes.

    Raises:
        DLBricksError: If an axis is not a list of sizes, or there are too many points.
    """

    axes: Axes

    def __post_init__(self) -> None:
        check_axes(self.axes)

    def sizes(self, name: str, dimensions: Sequence[OpenDimension]) -> list[Sizes]:
        """All combinations of the sizes.

        Raises:
            ModelError: If one of the dimensions is not open in the model.
        """
        known = {each.name for each in dimensions}.union(*(e.symbols for e in dimensions))
        for axis in by_dimension(self.axes):
            if axis not in known and axis != BATCH:
                raise ModelError(f"{name} leaves no dimension {axis!r} open", opened(dimensions))
        return [_sizes(point) for point in grid(self.axes)]

    def completed(self, models: Sequence[SizedModel], result: RunResult) -> RunResult:
        """The result of a run, with a curve for each model; latencies are fitted jointly."""
        if not result.request.metric:
            result = with_joint_fit(models, result)
        found = {each.cut.model.name: each for each in result.models}
        curves = [
            SizeCurve(
                each.name,
                [SizePoint(p, found[each.models[_sizes(p)].name]) for p in grid(self.axes)],
            )
            for each in models
        ]
        # Whoever times a size has run it before.
        ledger = result.ledger if result.request.metric else result.ledger.noting(_SEEN)
        return replace(result, over_sizes=AnswersAndCurves(curves=curves), ledger=ledger)


def _sizes(point: Mapping[str, int]) -> Sizes:
    dims = tuple((name, size) for name, size in point.items() if name != BATCH)
    return Sizes(dims, point.get(BATCH))
