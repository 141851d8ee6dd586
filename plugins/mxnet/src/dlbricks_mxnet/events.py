"""Events of MXNet's own profiler: when each operator of a graph ran."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dlbricks_core.errors import BackendError
from dlbricks_core.figures.statistics import trimmed_mean
from dlbricks_mxnet.framework import import_mxnet

mx = import_mxnet()

Event = Mapping[str, Any]

_DROPPED = 0.4
"""Share of the runs to drop at each end: where few are profiled, other work disturbs several."""


def traced(
    run: Callable[[], float], further: Callable[[float], int]
) -> tuple[Sequence[Event], list[float]]:
    """Events and latencies in milliseconds of some runs under the profiler.

    Args:
        run: Function that runs a network once, to its end, and returns the latency.
        further: Function that returns the number of runs after the first one, from its latency.
    """
    trace = _Trace.of_process()
    mx.profiler.set_state("run")
    latencies = [run()]
    latencies += [run() for _ in range(further(latencies[0]))]
    mx.nd.waitall()
    mx.profiler.set_state("stop")
    mx.profiler.dump(finished=False)
    return trace.further_events(), latencies


class _Trace:
    """Output file of MXNet's profiler. A process has only one, which only grows."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dlbricks-")
        self._path = Path(self._folder.name) / "profile.json"
        self._known = 0
        mx.profiler.set_config(profile_symbolic=True, filename=str(self._path))

    @classmethod
    @cache
    def of_process(cls) -> _Trace:
        """The file of this process."""
        return cls()

    def further_events(self) -> Sequence[Event]:
        """Events since the last call. MXNet completes the JSON only when the process ends."""
        text = self._path.read_text(encoding="utf-8")
        part = text[self._known :]
        if not self._known:
            part = part.partition("[")[2]
        self._known = len(text)
        part = part.strip().removeprefix(",")
        events: Sequence[Event] = json.loads(f"[{part}]")
        return events


def times(operators: Sequence[str], events: Sequence[Event], runs: int) -> Sequence[float]:
    """Time of each operator in milliseconds, in graph order, which is also execution order.

    Args:
        operators: Type of each operator in graph order.
        events: Events of all runs.
        runs: Number of runs.

    Raises:
        BackendError: If the events are not of these operators.
    """
    begins, ends = begins_and_ends(operators, events, runs)
    spans = [end["ts"] - begin["ts"] for begin, end in zip(begins, ends, strict=True)]
    taken = np.array(spans).reshape(runs, len(operators)) / 1e3
    # Times are whole microseconds: a mean over the middle fifth has a better resolution than a
    # median.
    found: Sequence[float] = trimmed_mean(taken.T, _DROPPED).tolist()
    return found


def begins_and_ends(
    operators: Sequence[str], events: Sequence[Event], runs: int
) -> tuple[Sequence[Event], Sequence[Event]]:
    """Events at which each operator begins and ends, run by run in the order of the graph.

    Args:
        operators: Type of each operator in graph order.
        events: Events of all runs.
        runs: Number of runs.

    Raises:
        BackendError: If the events are not of these operators.
    """
    # Other activities of the engine are part of an operator's run, or happen between two.
    kinds = frozenset(operators)
    ours = [e for e in events if e.get("cat") == "operator" and e["name"] in kinds]
    begins = [event for event in ours if event["ph"] == "B"]
    ends = [event for event in ours if event["ph"] == "E"]
    if len(begins) == 2 * runs * len(operators):
        # The naive engine reports an operator that it runs at once as run, and then as pushed.
        begins, ends = begins[1::2], ends[1::2]
    if [event["name"] for event in begins] != list(operators) * runs:
        raise BackendError("MXNet's trace does not have the model's operators in their order")
    return begins, ends
