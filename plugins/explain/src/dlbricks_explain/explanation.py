"""Estimates and profiles of groups of layers side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from dlbricks_accuracy.evaluation import evaluate

from dlbricks_core.backends import Profile, ProfiledLayer
from dlbricks_core.bricks import CutModel
from dlbricks_core.bricks.signature import live_outputs, outer_inputs
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError, UnsupportedError
from dlbricks_core.estimation.results import ModelResult, RunResult
from dlbricks_core.figures.figure import Cost, Figure
from dlbricks_core.ir import CanonicalModel, TensorSpec
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

T = TypeVar("T")

#: Maximum number of profiled runs. The median of so many is stable, and a trace grows with each
#: run.
_MOST_RUNS = 50


@dataclass(frozen=True)
class Profiling:
    """Result of a request for a framework's profile."""

    profile: Profile | None = None  #: The profile; ``None`` if there is none.
    reason: str = ""  #: Reason for a missing profile; empty with a profile.
    failed: bool = False  #: Whether profiling failed. A framework without a profiler did not fail.


@dataclass(frozen=True)
class BrickGroup:
    """One occurrence of a brick in the model, or several that the framework fuses."""

    positions: tuple[int, ...]  #: Positions among the model's occurrences, from 0.
    signatures: tuple[str, ...]  #: Signatures of the brick or the bricks.
    operators: tuple[str, ...]  #: Operator types of the layers, in the order in which they run.
    #: Tensors that the layers read from other layers, without weights.
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]  #: Tensors that other layers read.
    #: Number of occurrences of the brick in the model, or of the rarest of several bricks.
    occurrences: int
    #: Cost in the composer's sum, without the call of the timer; ``None`` if the brick has no
    #: measurement.
    cost: Cost | None
    #: Time of its layers in the profile; ``None`` if the profile has none of them.
    profiled_ms: float | None
    #: Time in the profile, scaled down to the measured latency where the profile's sum exceeds it;
    #: ``None`` also where the profile lacks some of its layers.
    scaled_ms: float | None
    remarks: tuple[str, ...] = ()  #: Remarks on the group.

    @property
    def deviation_ms(self) -> float | None:
        """Composed cost minus profiled time in milliseconds; ``None`` if one is missing."""
        if self.cost is None or self.scaled_ms is None:
            return None
        return self.cost.ms - self.scaled_ms


@dataclass(frozen=True)
class Explanation:
    """Breakdown of an estimate into groups, compared with the framework's profile."""

    result: RunResult  #: The run, which has one model.
    profiling: Profiling  #: The framework's profile.
    #: Factor of the profile's times, which makes up for what profiling adds to layers: 1, or less
    #: where they sum up to more than the measured latency without the call of the timer, which no
    #: profile includes.
    scale: float | None
    #: Groups in descending order of deviation, then groups without a deviation by cost.
    groups: Sequence[BrickGroup]
    outside: Sequence[ProfiledLayer]  #: Layers of the profile that belong to no group.

    @classmethod
    def of(cls, result: RunResult, profiling: Profiling) -> Explanation:
        """Compares a run of one model with a profile. Measures nothing itself."""
        (model,) = result.models
        profile = profiling.profile
        scale = None
        if profile is not None and model.measured is not None and profile.sum_ms > 0:
            share = max(model.measured.value - _call_ms(result), 0.0) / profile.sum_ms
            # A run that takes longer than its layers spends the rest in none of them.
            scale = min(share, 1.0)
        times, outside = _assigned(model.cut.graph, profile)
        fused = _fused(model.cut.graph, times, outside) if times else {}
        latencies = {each.brick.signature: each.latency for each in result.bricks}
        groups = [
            _group(model, positions, latencies, times if profile else None, fused, scale)
            for positions in _joined(model.cut, fused)
        ]
        return cls(result, profiling, scale, sorted(groups, key=_rank), outside)

    @property
    def model(self) -> ModelResult:
        """The model."""
        return self.result.models[0]

    @property
    def profile(self) -> Profile | None:
        """The framework's profile; ``None`` if there is none."""
        return self.profiling.profile

    @property
    def composed_ms(self) -> float | None:
        """The estimate."""
        return self.model.estimate.value

    @property
    def measured_ms(self) -> float | None:
        """Latency of the whole model."""
        return self.model.measured.value if self.model.measured else None

    @property
    def call_ms(self) -> float:
        """Cost of the call of the timer in milliseconds, which an estimate includes once."""
        return _call_ms(self.result)

    @property
    def in_layers_ms(self) -> float | None:
        """Part of the measured latency that the profile finds in layers."""
        if self.profile is None or self.scale is None:
            return None
        return self.profile.sum_ms * self.scale

    @property
    def in_no_layer_ms(self) -> float | None:
        """Part of the measured latency that the profile finds in no layer, in milliseconds.

        The framework spends it between layers, or others use the machine meanwhile.
        """
        if self.in_layers_ms is None or self.measured_ms is None:
            return None
        return max(self.measured_ms - self.call_ms - self.in_layers_ms, 0.0)

    @property
    def deviation_ms(self) -> float | None:
        """Estimate minus measured latency; ``None`` if one is missing or partial."""
        if self.model.normalized is None or self.composed_ms is None or self.measured_ms is None:
            return None
        return self.composed_ms - self.measured_ms

    @cached_property
    def groups_ms(self) -> float | None:
        """Sum of the groups' deviations; ``None`` where no group has one."""
        found = [each.deviation_ms for each in self.groups if each.deviation_ms is not None]
        return sum(found) if found else None

    @property
    def rest_ms(self) -> float | None:
        """The part of the deviation outside all groups, in milliseconds.

        It comes from layers of the profile that belong to no group, from groups without a profile,
        and from rules of a composer other than adding up costs.
        """
        if self.deviation_ms is None or self.groups_ms is None:
            return None
        return self.deviation_ms - self.groups_ms

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not (self.result.failures or self.profiling.failed)


def explain(
    model: CanonicalModel,
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
) -> Explanation:
    """Estimates a model, times it in the same rounds, and profiles it."""
    result = evaluate([model], cut_options, request, store, observer).result
    return Explanation.of(result, _profiling(result, observer))


def _profiling(result: RunResult, observer: Observer) -> Profiling:
    observer.stage(f"Asking {result.request.backend.name} for its profile")

    def ask(worker: BackendWorker, model: CanonicalModel, measured: Figure) -> Profile:
        return worker.profile(model, min(len(measured.samples), _MOST_RUNS), measured.value)

    return Profiling(*run_tool(result, ask))


def run_tool(
    result: RunResult, ask: Callable[[BackendWorker, CanonicalModel, Figure], T]
) -> tuple[T | None, str, bool]:
    """Runs a framework's own tool on a model that was measured.

    Args:
        result: The run, which has one model.
        ask: Function that runs the tool in a new worker; its last argument is the latency.

    Returns:
        The tool's result, the reason where there is none, and whether that is a failure.
    """
    (found,) = result.models
    request = result.request
    if found.measured is None:
        return None, "the whole model has no latency that it could be compared with", False
    try:
        with BackendWorker.of(request) as worker:
            return ask(worker, found.cut.model, found.measured), "", False
    except UnsupportedError as error:
        return None, error.message, False
    except DLBricksError as error:
        return None, error.message, True


def _call_ms(result: RunResult) -> float:
    """Cost of a call of the timer in milliseconds, which an estimate includes once."""
    return max((each.latency.overhead for each in result.bricks if each.latency), default=0.0)


def _assigned(
    executed: CanonicalModel, profile: Profile | None
) -> tuple[dict[int, float], list[ProfiledLayer]]:
    """Time of each layer by its index, and layers of the profile without a counterpart.

    The tensors that a layer computes identify it.
    """
    times: dict[int, float] = {}
    outside = []
    for each in profile.layers if profile else ():
        index = next(
            (executed.producers[name] for name in each.outputs if name in executed.producers), None
        )
        if index is None:
            outside.append(each)
        else:
            times[index] = times.get(index, 0.0) + each.ms
    return times, outside


def _fused(
    executed: CanonicalModel, times: Mapping[int, float], outside: Sequence[ProfiledLayer]
) -> dict[int, int]:
    """Layers that the framework fuses into another layer: index, and index of that layer.

    A profile names fused layers after the last of them. A layer without a profiled time is
    therefore assigned to the only layer that reads it, unless its time may be in a profiled layer
    of unknown name.
    """
    elsewhere = {each.operator.rpartition(".")[2] for each in outside}
    into: dict[int, int] = {}
    for index in reversed(range(len(executed.layers))):
        layer = executed.layers[index]
        if index in times or layer.op in elsewhere:
            continue
        readers = {r for name in layer.outputs for r in executed.consumers.get(name, ())}
        ends = {into.get(reader, reader) for reader in readers}
        if len(ends) == 1 and ends <= set(times):
            into[index] = ends.pop()
    return into


def _joined(cut: CutModel, fused: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Positions of occurrences, grouped where a layer of one is fused into a layer of another."""
    owner = {layer: i for i, each in enumerate(cut.occurrences) for layer in each.layers}
    import networkx as nx  # slow to import, and no other command needs it

    graph = nx.Graph()
    graph.add_nodes_from(range(len(cut.occurrences)))
    graph.add_edges_from((owner[layer], owner[other]) for layer, other in fused.items())
    return sorted(tuple(sorted(each)) for each in nx.connected_components(graph))


def _group(
    model: ModelResult,
    positions: tuple[int, ...],
    latencies: Mapping[str, Figure | None],
    times: Mapping[int, float] | None,
    fused: Mapping[int, int],
    scale: float | None,
) -> BrickGroup:
    cut = model.cut
    executed, signatures = cut.graph, tuple(cut.occurrences[p].signature for p in positions)
    layers = sorted(layer for p in positions for layer in cut.occurrences[p].layers)
    known = [times[i] for i in layers if i in times] if times else []
    lacking = [i for i in layers if times is not None and i not in times and i not in fused]
    profiled = sum(known) if known else None
    scaled = None if profiled is None or scale is None or lacking else profiled * scale
    cost = _cost([latencies[signature] for signature in signatures])
    remarks = [
        f"no measurement: {model.missing.get(s, 'not measured')}"
        for s in dict.fromkeys(signatures)
        if latencies[s] is None
    ]
    if len(positions) > 1:
        remarks.append("one piece of work in the profile")
    if lacking:
        operators = ", ".join(dict.fromkeys(executed.layers[i].op for i in lacking))
        remarks.append(f"not in the profile: {operators}")
    call_ms = sum(each.overhead for s in signatures if (each := latencies[s]))
    if cost is not None and cost.ms <= call_ms:
        remarks.append("cost within the timer's own")
    elif cost is not None and scaled is not None:
        low, high = cost.interval_ms
        if low <= scaled <= high:
            remarks.append("difference within the samples' scatter")
    return BrickGroup(
        positions=positions,
        signatures=signatures,
        operators=tuple(executed.layers[i].qualified_op for i in layers),
        inputs=tuple(executed.tensors[name] for name in outer_inputs(executed, layers)),
        outputs=tuple(executed.tensors[name] for name in live_outputs(executed, layers)),
        occurrences=min(cut.counts[signature] for signature in signatures),
        cost=cost,
        profiled_ms=profiled,
        scaled_ms=scaled,
        remarks=tuple(remarks),
    )


def _cost(latencies: Sequence[Figure | None]) -> Cost | None:
    costs = [Cost.brick(latency) for latency in latencies if latency is not None]
    if len(costs) < len(latencies):
        return None
    return Cost(sum(c.ms for c in costs), np.sum([c.replicates for c in costs], axis=0))


def _rank(group: BrickGroup) -> tuple[bool, float]:
    if group.deviation_ms is not None:
        return False, -abs(group.deviation_ms)
    return True, -(group.cost.ms if group.cost else 0.0)
