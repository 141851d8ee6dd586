"""Peak memory: the maximum resident memory of a process that loads and runs a network."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from operator import sub
from pathlib import Path
from typing import Any

import numpy as np

from dlbricks_core.backends import WARMUP_RUNS, CpuTimer
from dlbricks_core.bricks import CutModel
from dlbricks_core.bricks.copies import side_by_side
from dlbricks_core.bricks.liveness import live_bytes
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.resident import MIB, forget_peak, give_back, peak_mib, resident_mib
from dlbricks_core.measure.probe import Probe, Values, added_up, largest
from dlbricks_core.values import materialize

_ENOUGH_MIB = 128
"""Combined size of the additional copies of a network, if these are not too many. The resident
memory of a process scatters, because the allocator keeps freed memory in pieces.
"""

_MOST_COPIES = 9


class PeakMemory(Probe):
    """Increase of resident memory up to its peak while a network is loaded from a file and run.

    The probe also observes several copies of a network side by side in one network. The increase
    for each additional copy adds up over the bricks of a model. The peak occurs at one of three
    times: while the model is loaded, just after loading, when the allocator still keeps freed
    memory, or while the model runs.

    A run needs three kinds of memory: what bricks keep without that freed memory, the feature maps
    that the model holds at a time, and the scratch memory of one brick. The model itself tells the
    number of feature maps; the run of a brick tells its scratch memory. Runs reuse freed memory
    first, but code that is read for the first time cannot.
    """

    quantity = Quantity("peak-memory", "MiB", Composition.PEAK, "peak resident memory of a network")
    parts = (
        Quantity("kept-memory", "MiB", Composition.SUM, "memory that a loaded network keeps"),
        Quantity("loading-memory", "MiB", Composition.SUM, "peak of memory while a network loads"),
        Quantity("loaded-memory", "MiB", Composition.SUM, "kept memory, and what loading freed"),
        Quantity("run-memory", "MiB", Composition.PEAK, "memory that only a run takes"),
        Quantity("run-code", "MiB", Composition.PEAK, "memory that only the first run takes"),
    )
    version = 2
    runs = 2
    isolated = True

    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> Sequence[float]:
        """MiB at the peak, and the parts, derived from additional copies of the network."""
        first = _Peaks.of(timer, model, seed, trimmed=True)
        again = _Peaks.of(timer, model, seed, trimmed=True)
        copies = _copies(model)
        several = _Peaks.of(timer, side_by_side(model, copies), seed, trimmed=True)
        # Code is loaded already, as for all but one brick of a model.
        inputs, ends = _mib(model, model.inputs), _mib(model, (*model.inputs, *model.outputs))
        more = (several - again) / (copies - 1)
        kept = max(more.running - ends, model.weight_bytes / MIB)
        loaded = max(more.loaded - inputs, kept)
        loading = max(more.loading - inputs, loaded)
        code = max(first.grown - again.grown, 0.0)
        return first.most, kept, loading, loaded, first.grown + inputs, code

    def observe_whole(
        self, timer: CpuTimer[Any], model: CanonicalModel, seed: int
    ) -> Sequence[float]:
        """MiB at the peak, without the parts, which a single network does not reveal."""
        return (_Peaks.of(timer, model, seed).most,)

    def total(self, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """The highest of three peaks: while loading, just after loading, and while running."""
        _, kept, loading, loaded, running, code = values
        live = live_bytes(cut)
        moments = {s: each + (live[s].within - live[s].alone) / MIB for s, each in running.items()}
        inputs, shared = _mib(cut.graph, cut.graph.inputs), _shared_mib(cut)
        peaks = (
            added_up(cut, loading) + inputs,
            added_up(cut, loaded) + inputs + largest(code),
            added_up(cut, kept) + largest(moments),
        )
        most: FloatArray = np.maximum.reduce(np.broadcast_arrays(*peaks))
        return np.maximum(most - shared, 0.0)


@dataclass(frozen=True)
class _Peaks:
    """Increase of resident memory by a network, in MiB.

    Attributes:
        loading: Peak while the network is loaded from its file.

    loaded: Increase after loading.

    held: Increase after loading, without freed memory if that was returned.

    running: Peak while the network runs.
    """

    loading: float
    loaded: float
    held: float
    running: float

    @classmethod
    def of(
        cls, timer: CpuTimer[Any], model: CanonicalModel, seed: int, *, trimmed: bool = False
    ) -> _Peaks:
        """Observes the peaks of a network: loads it, runs it a few times, and unloads it.

        Args:
            timer: The backend's timer.
            model: In canonical form.
            seed: Seed of weights and inputs.
            trimmed: Whether memory that loading has freed is returned to the system before the
                runs.
        """
        with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
            saved = timer.save(materialize(model, seed), Path(folder))
            give_back()
            forget_peak()
            before = resident_mib()
            network = saved.open()
            loading, loaded = peak_mib() - before, resident_mib() - before
            if trimmed:
                give_back()
            held = resident_mib() - before
            forget_peak()
            for _ in range(WARMUP_RUNS):
                timer.run(network)
                timer.synchronize(network)
                timer.release(network)
            running = peak_mib() - before
            timer.unload(network)
        del network, saved
        give_back()
        return cls(loading, loaded, held, running)

    @property
    def most(self) -> float:
        """The peak."""
        return max(self.loading, self.running)

    @property
    def grown(self) -> float:
        """Increase during the runs."""
        return self.running - self.held

    def __sub__(self, other: _Peaks) -> _Peaks:
        return _Peaks(*map(sub, astuple(self), astuple(other)))

    def __truediv__(self, number: int) -> _Peaks:
        return _Peaks(*(each / number for each in astuple(self)))


def _copies(model: CanonicalModel) -> int:
    """Number of copies that are loaded together: 2, or more for a small network."""
    size = model.weight_bytes / MIB + _mib(model, (*model.inputs, *model.outputs))
    return int(min(2 + _ENOUGH_MIB // max(size, 1.0), _MOST_COPIES))


def _mib(model: CanonicalModel, names: Sequence[str]) -> float:
    """Size of some tensors of a model in MiB, each counted once."""
    return sum(model.tensors[name].nbytes for name in set(names)) / MIB


def _shared_mib(cut: CutModel) -> float:
    """Size in MiB of weights that several bricks share, counted once for each additional brick.

    The embedding of a decoder is often the weight of its last layer, too.
    """
    graph = cut.graph
    read = [
        graph.weights.intersection(n for i in each.layers for n in graph.layers[i].reads)
        for each in cut.occurrences
    ]
    return sum(_mib(graph, list(each)) for each in read) - _mib(graph, list(set().union(*read)))
