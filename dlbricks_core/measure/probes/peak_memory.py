"""Peak memory: the most resident memory that a network takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlbricks_core.backends import WARMUP_RUNS, CpuTimer
from dlbricks_core.bricks import CutModel
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.resident import MIB, forget_peak, give_back, peak_mib, resident_mib
from dlbricks_core.measure.probe import Probe, Values, added_up, largest
from dlbricks_core.values import materialize


class PeakMemory(Probe):
    """Resident memory at its peak while a network is loaded and run, less that from before.

    Loading takes memory for all bricks at once. A run takes what all bricks keep, and the feature
    maps that the model holds at a time. Either takes more for a time: as much as the brick that
    needs most, for scratch memory and for code that is read the first time. Sizes of feature maps
    are known without a run, so that the parts hold neither inputs nor outputs of a brick.
    """

    quantity = Quantity("peak-memory", "MiB", Composition.PEAK, "peak resident memory of a network")
    parts = (
        Quantity("kept-memory", "MiB", Composition.SUM, "memory that a loaded network keeps"),
        Quantity("loading-memory", "MiB", Composition.SUM, "peak of memory while a network loads"),
        Quantity("run-scratch", "MiB", Composition.PEAK, "memory that a run takes for a time"),
        Quantity("loading-scratch", "MiB", Composition.PEAK, "memory that only a first load takes"),
    )
    runs = 2
    isolated = True

    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> Sequence[float]:
        """MiB at the peak; parts as a second copy has them, which finds code and caches warm."""
        ends, weights = _ends_mib(model), model.weight_bytes / MIB
        first, second = _Copy(timer, model, seed), _Copy(timer, model, seed)
        # A second load may find the allocator's memory in pieces, and so take more than the first.
        loading = min(first.loading, second.loading)
        # Not every framework keeps inputs and outputs, but each has the weights.
        kept, loading = (max(x - ends, weights) for x in (second.kept, loading))
        beyond = first.running - ends - kept, first.loading - ends - loading
        peak = max(first.loading, first.running)
        return peak, kept, loading, *(max(x, 0.0) for x in beyond)

    def total(self, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """The larger of two peaks: that of loading, and that of running."""
        _, kept, loading, run_scratch, loading_scratch = values
        run = added_up(cut, kept) + cut.graph.live_bytes / MIB + largest(run_scratch)
        load = added_up(cut, loading) + _ends_mib(cut.graph) + largest(loading_scratch)
        return np.maximum(run, load)


class _Copy:
    """A network that was loaded and run; MiB that it added at most while either, and for good."""

    def __init__(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> None:
        give_back()
        forget_peak()
        before = resident_mib()
        self.loaded = timer.load(materialize(model, seed))
        self.loading = peak_mib() - before
        forget_peak()
        for _ in range(WARMUP_RUNS):
            timer.run(self.loaded)
            timer.synchronize(self.loaded)
            timer.release(self.loaded)
        self.running = peak_mib() - before
        give_back()
        self.kept = resident_mib() - before


def _ends_mib(model: CanonicalModel) -> float:
    """Size of the model's inputs and outputs."""
    return sum(model.tensors[name].nbytes for name in {*model.inputs, *model.outputs}) / MIB
