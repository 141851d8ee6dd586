"""Time of each operator of a user's own module, from torch's profiler.

The import names layers after the operators of the exported program: the third ``aten::relu``
becomes ``node_relu_2``. A module calls operators in the order in which they were exported, so the
third event of that name is this layer. Names with another number of events are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dlbricks_core.backends import Profile, ProfiledLayer
from dlbricks_core.ir import CanonicalModel

_RUN = "dlbricks estimate --measure"
"""Mark of a run in torch's profile."""

_MOST_PROFILED = 20
_ENOUGH_MS = 5.0
"""Most profiled runs of a short model, and the milliseconds that they take together at least."""

_NODE = re.compile(r"node_(.+?)(?:_(\d+))?(?:__\d+)?")
"""Name of a layer: operator, number from the second one on, and number of the result."""

_EXPORTED = {
    **{f"conv_transpose{n}d": "convolution" for n in (1, 2, 3)},
    "_native_batch_norm_legit_no_training": "batch_norm",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
}
"""Operators with one name in modules and another in programs, by either of these names."""


@dataclass(frozen=True)
class _Call:
    """An operator that the module calls.

    Attributes:
        name: Name of the operator, without ``aten::``.
        ms: Time until the module calls the next one, in milliseconds. Results that are freed, and
            the module's Python code, count for the operator before.
    """

    name: str
    ms: float


def profile(run: Callable[[], float], model: CanonicalModel, fewest: int) -> Profile | None:
    """Time of each operator of a module that has run; ``None`` if its runs differ.

    Args:
        run: Function that runs the module once and returns the latency in milliseconds.
        model: The imported module.
        fewest: Minimum number of runs.
    """
    # torch.profiler is the same profiler, but imports torch's compiler first, which takes 1.2 s.
    with torch.autograd.profiler.profile() as profiler:
        latencies = [_marked(run)]
        further = min(max(fewest, round(_ENOUGH_MS / latencies[0])), max(fewest, _MOST_PROFILED))
        latencies += [_marked(run) for _ in range(further - 1)]
    runs = _runs(profiler)
    names = [each.name for each in runs[0]] if runs else []
    if not names or any([each.name for each in calls] != names for calls in runs):
        return None
    medians = np.median([[each.ms for each in calls] for calls in runs], axis=0)
    outputs = _outputs(names, model)
    layers = [
        ProfiledLayer(name, name, computed, float(ms))
        for name, computed, ms in zip(names, outputs, medians, strict=True)
    ]
    return Profile(layers, float(np.median(latencies)))


def _marked(run: Callable[[], float]) -> float:
    with torch.profiler.record_function(_RUN):
        return run()


def _runs(profiler: torch.autograd.profiler.profile) -> list[list[_Call]]:
    """Operators that the module itself calls in each run, without nested calls.

    Kineto's own events are read: torch's ``events()`` takes a second for a few thousand of them.
    """
    kineto = profiler.kineto_results
    events = kineto.events() if kineto else []
    marks = [each for each in events if each.name() == _RUN]
    thread = {each.start_thread_id() for each in marks}
    ours = sorted(
        (each.start_ns(), -each.duration_ns(), each.name())
        for each in events
        if each.start_thread_id() in thread
    )
    runs: list[list[tuple[int, str]]] = []
    ends: list[int] = []
    over_ns = 0
    for begin_ns, negated_ns, name in ours:
        if name == _RUN:
            runs.append([])
            ends.append(begin_ns - negated_ns)
            # Time before the first operator is assigned to it.
            first_ns = over_ns = begin_ns
        elif runs and over_ns <= begin_ns < ends[-1]:
            runs[-1].append((begin_ns if runs[-1] else first_ns, name))
            over_ns = begin_ns - negated_ns
    return [_calls(begun, end_ns) for begun, end_ns in zip(runs, ends, strict=True)]


def _calls(begun: Sequence[tuple[int, str]], end_ns: int) -> list[_Call]:
    begins = [begin_ns for begin_ns, _ in begun]
    return [
        _Call(_plain(name), (after_ns - begin_ns) / 1e6)
        for (begin_ns, name), after_ns in zip(begun, [*begins[1:], end_ns], strict=True)
    ]


def _plain(name: str) -> str:
    """Name of an operator that does not tell whether it is in place."""
    called = name.removeprefix("aten::").rstrip("_")
    return _EXPORTED.get(called, called)


def _outputs(names: Sequence[str], model: CanonicalModel) -> list[tuple[str, ...]]:
    """Tensors of the model that each of a sequence of operators computes; empty if unknown."""
    layers = _numbered(model)
    positions: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        positions[name].append(position)
    found: list[tuple[str, ...]] = [() for _ in names]
    for name, where in positions.items():
        numbers = layers.get(name, {})
        if numbers and max(numbers) + 1 == len(where):
            for number, outputs in numbers.items():
                found[where[number]] = outputs
    return found


def _numbered(model: CanonicalModel) -> Mapping[str, Mapping[int, tuple[str, ...]]]:
    """Results of layers by operator of the program and the number of its call.

    An operator that became several layers has the results of the first.
    """
    found: dict[str, dict[int, tuple[str, ...]]] = defaultdict(dict)
    for layer in model.layers:
        if told := _NODE.fullmatch(layer.name):
            name, number = told.groups()
            found[_plain(name)].setdefault(int(number or 0), layer.outputs)
    return found
