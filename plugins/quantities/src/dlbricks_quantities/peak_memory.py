"""Peak memory: the maximum resident memory of a process that loads and runs a network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from operator import sub
from pathlib import Path
from typing import Any

import numpy as np

from dlbricks_core.backends import WARMUP_RUNS, CpuTimer, Saved
from dlbricks_core.backends.saved import AuxiliaryProcess
from dlbricks_core.bricks import CutModel
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.metric import Metric, Values, added_up, largest
from dlbricks_core.worker.memory import MIB, MOST_KEPT_MIB, give_back, resident_mib
from dlbricks_quantities.liveness import apart_bytes, handed_on_bytes, live_bytes, side_by_side
from dlbricks_quantities.resident import forget_peak, mapped_mib, own_mib, peak_mib, return_ends

_ENOUGH_MIB = 128
"""Combined size of the additional copies of a network, up to their maximum number. The resident
memory of a process scatters, because the allocator keeps freed memory in pieces. With few copies,
no copy fits into memory that the others have freed.
"""

_MOST_COPIES = 33
"""Maximum number of copies of a network in one process."""

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})

_KEPT = Quantity("kept-memory", "MiB", Composition.SUM, "memory that a loaded network keeps")
_OWN = Quantity("own-memory", "MiB", Composition.SUM, "kept memory that bricks cannot share")
_LOADING = Quantity("loading-memory", "MiB", Composition.SUM, "peak of memory while it loads")
_LOADED = Quantity("loaded-memory", "MiB", Composition.SUM, "kept memory, and freed memory")
_PASSING = Quantity("passing-memory", "MiB", Composition.PEAK, "memory of large copies in between")
_RUN = Quantity("run-memory", "MiB", Composition.PEAK, "memory that only a run takes")
_LEFT = Quantity("left-memory", "MiB", Composition.SUM, "memory left by a brick's first run")
_CODE = Quantity("code-memory", "MiB", Composition.PEAK, "code that is read the first time")


class PeakMemory(Metric):
    """Increase of resident memory up to its peak while a network is loaded from a file and run.

    The metric also observes several copies of a network side by side in one network. The increase
    for each additional copy adds up over the bricks of a model. The peak occurs at one of three
    times: while the model is loaded, just after loading, when the allocator still keeps freed
    memory, or while the model runs.

    During loading, blocks that are too large for freed memory are added, for one brick at a time. A
    run needs the kept memory of all bricks, the run memory of one brick, and the feature maps that
    the model keeps for later bricks, whose sizes follow from the model. Runs reuse memory that
    earlier bricks have freed, except for code and for data that the framework prepares for each
    kind of brick. They reuse memory that loading has freed if their feature maps fit into it.
    """

    quantity = Quantity("peak-memory", "MiB", Composition.PEAK, "peak resident memory of a network")
    parts = (_KEPT, _OWN, _LOADING, _LOADED, _PASSING, _RUN, _LEFT, _CODE)
    version = 7
    # While a model is loaded, it takes the weights, and the largest weight twice.
    least = (0, 1, 2)
    runs = 2
    isolated = True

    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> Sequence[float]:
        """MiB at the peak, and the parts, derived from additional copies of the network."""
        number = _copies(model)
        with timer.elsewhere() as writer, timer.elsewhere(warm=True) as other:
            with _saved(writer, side_by_side(model, number), seed) as copies:
                several = _Peaks.of(timer, copies, trimmed=True)
            with _saved(writer, model, seed) as one:
                first, again = other.apply(_TWICE, one)
        inputs = _mib(model, model.inputs)
        results = _mib(model, sorted({*model.outputs}.difference(model.inputs)))
        more, once = (several - first) / (number - 1), first - again
        # Both are upper bounds: feature maps of one copy and of the next may exist at the same
        # time.
        keeps = min(more.running - results, more.held + more.left)
        kept = max(keeps, model.weight_bytes / MIB)
        own = min((timer.traits.weights_held - 1) * model.weight_bytes / MIB, kept)
        loaded = max(more.loaded, kept)
        loading = max(more.loading, loaded)
        fits = max(_sizes(model), default=0.0) <= MOST_KEPT_MIB
        passing = 0.0 if fits else max(again.loading - loading, 0.0)
        code, left = max(once.code, 0.0), max(once.left, 0.0)
        # A brick's results are inner tensors of a model.
        apart = apart_bytes(model) / MIB if timer.traits.results_apart else 0.0
        grown, most = max(again.grown + inputs - apart, 0.0), first.most + inputs
        return most, kept, own, loading, loaded, passing, grown, left, code

    def observe_whole(
        self, timer: CpuTimer[Any], model: CanonicalModel, seed: int
    ) -> Sequence[float]:
        """MiB at the peak, without the parts, which a single network does not reveal."""
        with timer.elsewhere() as writer, _saved(writer, model, seed) as saved:
            return (_Peaks.of(timer, saved).most + _mib(model, model.inputs),)

    def sizes(self, model: CanonicalModel) -> Sequence[float]:
        """MiB of weights and of feature maps, and the number of layers.

        Returns:
            Weights of convolutions, which frameworks lay out anew, other weights, the largest
                weight, the most feature maps that are live at a time, the number of layers, and
                the largest weight of a convolution.
        """
        convolved = {
            name
            for layer in model.layers
            if layer.op in _CONVOLUTIONS
            for name in layer.inputs[1:]
            if name in model.weights
        }
        of_convolutions = _mib(model, sorted(convolved))
        return (
            of_convolutions,
            model.weight_bytes / MIB - of_convolutions,
            max(_sizes(model), default=0.0),
            model.live_bytes / MIB,
            float(len(model.layers)),
            max((_mib(model, [name]) for name in convolved), default=0.0),
        )

    def total(self, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """The highest of three peaks: while loading, just after loading, and while running."""
        kept, own, loading, loaded, passing, running, left, code = values[1:]
        live = live_bytes(cut)
        runs = {s: each + live[s].more_within / MIB for s, each in running.items()}
        shared = _shared(cut, {s: kept[s] - own[s] for s in kept}, kept)
        inputs, first_runs = _mib(cut.graph, cut.graph.inputs), _each_once(left)
        beneath = kept if _freed_serves(cut.graph) else loaded
        peaks = (
            added_up(cut, loading) + inputs + largest(passing) - _shared(cut, kept, kept),
            added_up(cut, loaded) + inputs + first_runs - shared,
            added_up(cut, beneath) + largest(runs) + first_runs - shared,
        )
        most: FloatArray = np.maximum.reduce(np.broadcast_arrays(*peaks))
        return np.maximum(most + largest(code) + cut.model.idle_bytes / MIB, 0.0)

    def part_total(self, part: Quantity, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """Value of a part of a model; memory that first runs leave counts once for each brick."""
        if part == _LEFT:
            return _each_once(values[self.parts.index(part)])
        return super().part_total(part, cut, values)


@dataclass(frozen=True)
class _Peaks:
    """Increase of resident memory by a network, in MiB, without its inputs.

    A brick's inputs are results of other layers in its model. Making inputs takes more memory than
    the inputs themselves, because a framework may change their layout.

    Attributes:
        loading: Peak while the network is loaded from its file.
        loaded: Increase after loading.
        held: Increase after loading, without freed memory if it was returned to the system.
        running: Peak while the network runs.
        left: Increase of anonymous memory from loading until after the runs.
        code: Increase of resident pages of files, such as libraries, since before loading.
    """

    loading: float
    loaded: float
    held: float
    running: float
    left: float
    code: float

    @classmethod
    def of(cls, timer: CpuTimer[Any], saved: Saved[Any], *, trimmed: bool = False) -> _Peaks:
        """Observes the peaks of a network: loads it, runs it a few times, and unloads it.

        Args:
            timer: The backend's timer.
            saved: The network, which another process has written.
            trimmed: Whether memory that loading has freed is returned to the system before the
                runs.
        """
        fed = saved.feed()
        give_back()
        forget_peak()
        before, mapped = resident_mib(), mapped_mib()
        network = saved.prepare(saved.parse(), fed)
        del fed
        loading, loaded = peak_mib() - before, resident_mib() - before
        if trimmed:
            return_ends()
            give_back()
        held, own = resident_mib() - before, own_mib()
        forget_peak()
        for _ in range(WARMUP_RUNS):
            timer.run(network)
            timer.synchronize(network)
            timer.forget(network)
        running = peak_mib() - before
        give_back()
        left, code = own_mib() - own, mapped_mib() - mapped
        timer.unload(network)
        del network
        give_back()
        return cls(loading, loaded, held, running, left, code)

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


def observe_twice(timer: CpuTimer[Any], saved: Saved[Any]) -> tuple[_Peaks, _Peaks]:
    """Peaks of a network when a process opens it for the first and for the second time."""
    return _Peaks.of(timer, saved, trimmed=True), _Peaks.of(timer, saved, trimmed=True)


_TWICE = f"{__name__}:{observe_twice.__name__}"


@contextmanager
def _saved(writer: AuxiliaryProcess, model: CanonicalModel, seed: int) -> Iterator[Saved[Any]]:
    """A network in files, which exist for the time of the context."""
    with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
        yield writer.save(model, seed, Path(folder))


def _copies(model: CanonicalModel) -> int:
    """Number of copies that are loaded together: 2, or more for a small network."""
    size = model.weight_bytes / MIB + _mib(model, (*model.inputs, *model.outputs))
    return int(min(2 + _ENOUGH_MIB // max(size, 1.0), _MOST_COPIES))


def _freed_serves(model: CanonicalModel) -> bool:
    """Whether a run's feature maps fit into memory that loading has freed.

    Blocks that loading frees are as large as weights. Other data between these blocks stay, so
    that the blocks rarely join. A framework that plans the memory of a run allocates all feature
    maps as one block, from the system if no freed block is as large.
    """
    freed = min(max(_sizes(model), default=0.0), MOST_KEPT_MIB)
    return handed_on_bytes(model) / MIB <= freed


def _mib(model: CanonicalModel, names: Sequence[str]) -> float:
    """Size of some tensors of a model in MiB, each counted once."""
    return sum(model.tensors[name].nbytes for name in set(names)) / MIB


def _sizes(model: CanonicalModel) -> Sequence[float]:
    """Size of each of a model's weights in MiB."""
    return [model.tensors[name].nbytes / MIB for name in model.weights]


def _each_once(values: Values) -> FloatArray:
    """Sum over the different bricks of a model."""
    return sum(values.values(), np.zeros(1))


def _shared(cut: CutModel, given: Values, kept: Values) -> FloatArray:
    """Memory in MiB that a sum over bricks counts more than once, because bricks share weights.

    The embedding of a decoder is often the weight of its last layer, too. A brick that has packed
    its weights for its kernels shares them with no other brick.

    Args:
        cut: The model and its bricks.
        given: Memory of each brick that other bricks with the same weights can use, too.
        kept: All memory that each brick keeps.
    """
    graph = cut.graph
    readers: dict[str, list[FloatArray]] = {}
    for each in cut.occurrences:
        if each.signature in kept:
            part = np.clip(given[each.signature] / np.maximum(kept[each.signature], 1e-9), 0, 1)
            for name in graph.weights.intersection(
                read for index in each.layers for read in graph.layers[index].reads
            ):
                readers.setdefault(name, []).append(part)
    return sum(
        (
            _mib(graph, [name]) * (sum(parts, np.zeros(1)) - np.maximum.reduce(parts))
            for name, parts in readers.items()
            if len(parts) > 1
        ),
        np.zeros(1),
    )
