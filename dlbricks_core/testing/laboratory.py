"""A backend in a worker process, which is replaced after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np

from dlbricks_core.backends import Array, Backend, BackendSettings, CpuTimer
from dlbricks_core.ir import CanonicalModel, Network
from dlbricks_core.testing.host import HostResult
from dlbricks_core.worker import WorkerError, WorkerProcess

_TIMEOUT_S = 300.0

POISON = {"MALLOC_PERTURB_": "128"}
"""Environment in which glibc fills the memory that it hands out; as float32 it is 3.4e38."""


class Laboratory:
    """A worker that serves :class:`dlbricks_core.testing.host.ConformanceHost`.

    Args:
        target: ``"module:Class"`` of the backend.
        backend: The backend itself, for its environment.
        settings: Threads and options.
    """

    def __init__(self, target: str, backend: Backend, settings: BackendSettings) -> None:
        self._target = target
        self._backend = backend
        self._settings = settings
        self._worker: WorkerProcess | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the service; a worker that died is replaced at the next call."""
        worker = self._started()
        try:
            return worker.call(method, *arguments, timeout=_TIMEOUT_S)
        except WorkerError:
            self._worker = None
            raise

    def infer(self, network: Network) -> dict[str, Array]:
        """Results of a network, by name."""
        results: dict[str, Array] = self.call("infer", network)
        return results

    def observe(self, network: Network, other: Network) -> HostResult:
        """Results of a network after itself and after another one."""
        found: HostResult = self.call("observe", network, other)
        return found

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that the backend cannot run, by index, with the reason."""
        reasons: Mapping[int, str] = self.call("check", model)
        return reasons

    def _started(self) -> WorkerProcess:
        if self._worker is None:
            worker = WorkerProcess(
                "dlbricks_core.testing.host:ConformanceHost",
                {**POISON, **self._backend.environment(self._settings)},
            )
            try:
                worker.call("start", self._target, self._settings, timeout=_TIMEOUT_S)
            except BaseException:
                worker.close()
                raise
            self._worker = worker
        return self._worker

    def close(self) -> str:
        """Closes the timer and ends the worker.

        Returns:
            How the worker ended, if it did not end by itself; else an empty text.
        """
        if self._worker is None:
            return ""
        worker, self._worker = self._worker, None
        try:
            worker.call("close", timeout=_TIMEOUT_S)
        finally:
            worker.close()
        return worker.ending

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


# Test of a timer's profile: whether its layers add up to a run.

_ROUNDS = 9
_RUNS = 3
_OF_ONE_RUN = 1.25
"""Most that the layers of a run may differ from it, as a factor."""

_OF_TWO_RUNS = 2.0
"""Most that the layers of a run may differ from another run, which has no profiler."""


def layers_sum_up_to_a_run(
    timer: CpuTimer[Any], network: Network, plain: Network | None = None
) -> bool:
    """Whether the layers of a profile take as long as a run.

    Compares the sum of the layers with the profiled runs, within 25%, and with runs without the
    profiler, within a factor of two for the profiler's overhead. Other work on the machine makes
    some runs longer. Of a run that is profiled it falls on the layers as well, so that the median
    of the ratios tells. Of different runs, the fastest of each kind are compared. Both kinds take
    turns.

    Args:
        timer: The timer that profiles.
        network: The network to profile.
        plain: The network to run without the profiler; ``None`` for the same one.
    """
    loaded = timer.load(plain or network)
    profiles, runs_ms = [], []
    for _ in range(_ROUNDS):
        profiles.append(timer.profile(network, 1))
        runs_ms += [_run_ms(timer, loaded) for _ in range(_RUNS)]
    timer.unload(loaded)
    same = np.median([each.sum_ms / each.run_ms for each in profiles])
    other = min(each.sum_ms for each in profiles) / min(runs_ms)
    return _within(float(same), _OF_ONE_RUN) and _within(other, _OF_TWO_RUNS)


def _within(ratio: float, factor: float) -> bool:
    return 1 / factor < ratio < factor


def _run_ms(timer: CpuTimer[Any], loaded: Any) -> float:
    begin = perf_counter()
    timer.run(loaded)
    timer.synchronize(loaded)
    return (perf_counter() - begin) * 1e3
