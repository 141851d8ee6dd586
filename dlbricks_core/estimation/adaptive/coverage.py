"""Coverage: the choice of whole models to run, so that their bricks cover all other models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dlbricks_core.analysis.work import layer_flops
from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel

_FLOPS_MS, _BYTES_MS, _LAYER_MS = 2e7, 1e7, 0.003
"""Floating-point operations and bytes in a millisecond, and milliseconds of a layer, on a core of a
usual server. Only ratios matter, because they order the models."""

_LOADING_MS, _LOADED_BYTES_MS = 20.0, 5e5
"""Milliseconds to prepare a model, and bytes of weights that it reads in a millisecond."""


@dataclass
class _Learned:
    """Ratio of what models took to what was expected of them.

    Attributes:
        taken_ms: Milliseconds that they took. A model as expected stands at the begin.
        expected_ms: Milliseconds that were expected.
    """

    taken_ms: float
    expected_ms: float = field(init=False)

    def __post_init__(self) -> None:
        self.expected_ms = self.taken_ms

    @property
    def factor(self) -> float:
        """Factor of what is expected of further models."""
        return self.taken_ms / self.expected_ms

    def add(self, expected_ms: float, taken_ms: float) -> None:
        """Adds a model."""
        self.expected_ms += expected_ms
        self.taken_ms += taken_ms


@dataclass(frozen=True)
class RunCosts:
    """Rough costs of models, from their sizes and from models that ran.

    Attributes:
        cuts: The models and their bricks.
        runs: Runs of a model that is timed.
    """

    cuts: Sequence[CutModel]
    runs: int
    _loading: _Learned = field(default_factory=lambda: _Learned(_LOADING_MS))
    _running: _Learned = field(default_factory=lambda: _Learned(_LOADING_MS))

    def learn(self, position: int, loading_ms: float, latency_ms: float) -> None:
        """Corrects the costs of all models by those of one that ran.

        Args:
            position: Position of the model.
            loading_ms: Milliseconds until the end of its first run.
            latency_ms: Its latency in milliseconds.
        """
        self._running.add(self.models[position], latency_ms)
        self._loading.add(self._loading_ms(position), max(loading_ms - latency_ms, 0.0))

    @cached_property
    def bricks(self) -> Mapping[str, float]:
        """Latency of each brick in milliseconds, by signature."""
        found: dict[str, float] = {}
        for cut in self.cuts:
            for each in cut.occurrences:
                if each.signature not in found:
                    found[each.signature] = _latency_ms(cut.graph, each.layers)
        return found

    @cached_property
    def models(self) -> Sequence[float]:
        """Latency of each model in milliseconds."""
        return [sum(count * self.bricks[s] for s, count in cut.counts.items()) for cut in self.cuts]

    @property
    def running(self) -> Sequence[float]:
        """Milliseconds to load each model and to run it."""
        loading, running = self._loading.factor, self.runs * self._running.factor
        return [
            self._loading_ms(i) * loading + latency_ms * running
            for i, latency_ms in enumerate(self.models)
        ]

    def _loading_ms(self, position: int) -> float:
        return _LOADING_MS + self.cuts[position].model.weight_bytes / _LOADED_BYTES_MS

    def share(self, position: int, known: Collection[str]) -> float:
        """Share of a model's latency in bricks with a figure."""
        cut, total = self.cuts[position], self.models[position]
        part = sum(n * self.bricks[s] for s, n in cut.counts.items() if s in known)
        return part / total if total else 1.0


def chosen(
    costs: RunCosts,
    lacking: Collection[int],
    able: Collection[int],
    known: Collection[str],
    enough: float,
) -> Iterator[int]:
    """Models to run, in order, until known bricks cover enough of each model that lacks precision.

    Each step chooses the model whose bricks add most to the covered share of all models per second
    of running it (greedy set cover). What was learned of costs until then counts.

    Args:
        costs: Costs of the models.
        lacking: Positions of the models that lack precision.
        able: Positions of the models that can run.
        known: Signatures of bricks with a figure.
        enough: Sufficient share of a model's latency in known bricks; above 1, no share suffices.
    """
    have = set(known)
    open_models = {i for i in lacking if costs.share(i, have) < enough}
    while candidates := [i for i in able if i in open_models]:
        needed, running = _needed(costs, open_models, have), costs.running
        gains = {i: sum(needed.get(s, 0.0) for s in costs.cuts[i].counts) for i in candidates}
        best = max(candidates, key=lambda i: gains[i] / running[i])
        yield best
        have |= costs.cuts[best].counts.keys()
        open_models.discard(best)
        open_models = {i for i in open_models if costs.share(i, have) < enough}


def _needed(
    costs: RunCosts, models: Collection[int], known: Collection[str]
) -> Mapping[str, float]:
    """Sum over models of the share of each brick without a figure, by signature."""
    found: dict[str, float] = {}
    for i in models:
        for signature, count in costs.cuts[i].counts.items():
            if signature not in known:
                part = count * costs.bricks[signature] / max(costs.models[i], 1e-9)
                found[signature] = found.get(signature, 0.0) + part
    return found


def _latency_ms(model: CanonicalModel, layers: Sequence[int]) -> float:
    total = 0.0
    for index in layers:
        layer = model.layers[index]
        names = {name for name in (*layer.inputs, *layer.outputs) if name in model.tensors}
        nbytes = sum(spec.nbytes for name in names if (spec := model.tensors[name]).is_static)
        flops = layer_flops(model, layer) or 0
        total += _LAYER_MS + max(flops / _FLOPS_MS, nbytes / _BYTES_MS)
    return total
