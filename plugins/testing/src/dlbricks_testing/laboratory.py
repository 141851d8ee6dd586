"""A backend in a worker process, which is replaced after a crash."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from dlbricks_core.backends import Array, Backend, BackendSettings, CpuTimer
from dlbricks_core.ir import CanonicalModel, Network
from dlbricks_core.plugins import load_object
from dlbricks_core.worker import WorkerError, WorkerProcess

# Service in a worker process that calls the methods of a backend's timer one by one.

_NOISE = 113
_PRIVATE_CACHE_BYTES = 2**20
"""A byte that no network computes, and the bytes of the private cache of a core."""


@dataclass(frozen=True)
class HostResult:
    """Results of a network.

    Attributes:
        results: Results by name, for each occasion.
        values_kept: Whether the given weights and inputs are unchanged.
    """

    results: Mapping[str, Mapping[str, Array]]
    values_kept: bool


class ConformanceHost:
    """A backend with its timer, inside the worker."""

    def __init__(self) -> None:
        self._backend: Backend
        self._timer: CpuTimer[Any]
        self._loaded: dict[str, Any] = {}

    def start(self, target: str, settings: BackendSettings) -> None:
        """Makes the timer of a backend, which ``target`` names as ``"module:Class"``."""
        self._backend = load_object(target)()
        self._timer = CpuTimer.present = self._backend.timer(settings)
        # Objects of the framework stay, so the garbage collector need not scan them.
        gc.freeze()

    def check(self, model: CanonicalModel) -> dict[int, str]:
        """Layers that the backend cannot run, by index, with the reason."""
        return dict(self._backend.check(model))

    def load(self, key: str, network: Network) -> None:
        """Loads a network under a key."""
        self._loaded[key] = self._timer.load(network)

    def run(self, key: str, times: int = 1) -> None:
        """Runs a network a number of times, each time to its end."""
        for _ in range(times):
            self._timer.run(self._loaded[key])
            self._timer.synchronize(self._loaded[key])

    def warm_io(self, key: str) -> None:
        """Warms a network's inputs and outputs."""
        self._timer.warm_io(self._loaded[key])

    def outputs(self, key: str) -> dict[str, Array]:
        """Results of a network's last run."""
        return dict(self._timer.outputs(self._loaded[key]))

    def unload(self, key: str) -> None:
        """Unloads a network."""
        self._timer.unload(self._loaded.pop(key))
        gc.collect()

    def outputs_kept(self, key: str, other: str) -> dict[str, Array]:
        """Results of a network, returned after another network ran and this one was unloaded."""
        results = self.outputs(key)
        self.run(other)
        self.unload(key)
        return results

    def infer(self, network: Network) -> dict[str, Array]:
        """Results of a network's second run, with ``warm_io`` before it; loads and unloads it."""
        self.load("infer", network)
        try:
            for _ in range(2):
                self.warm_io("infer")
                self.run("infer")
            return {name: value.copy() for name, value in self.outputs("infer").items()}
        finally:
            self.unload("infer")

    def infer_saved(self, network: Network, folder: Path) -> list[dict[str, Array]]:
        """Results of a network's first two runs, once it was written and loaded from files."""
        saved = pickle.dumps(self._timer.save(network, folder))  # as another process receives it
        self._loaded["saved"] = pickle.loads(saved).open()
        try:
            found = []
            for _ in range(2):
                self.run("saved")
                found.append(self._taken("saved"))
                self._timer.release(self._loaded["saved"])
            return found
        finally:
            self.unload("saved")

    def observe(self, network: Network, other: Network) -> HostResult:
        """Runs a network after itself and after another one.

        Between the runs, the arrays that ``outputs`` returned are overwritten. If they are not
        copies but an input or a weight, the next results are wrong.
        """
        before = _bytes({**network.weights, **network.inputs})
        self.load("observed", network)
        self.load("other", other)
        results = {}
        try:
            self.warm_io("observed")
            self.run("observed", 2)
            results["after itself"] = self._taken("observed")
            self.warm_io("other")
            self.run("other")
            self._taken("other")
            self.run("observed")
            results["after another network"] = self._taken("observed")
        finally:
            self.unload("observed")
            self.unload("other")
        return HostResult(results, _bytes({**network.weights, **network.inputs}) == before)

    def _taken(self, key: str) -> dict[str, Array]:
        """Copies of the results of a network's last run; the timer's own arrays are overwritten."""
        found = self.outputs(key)
        copies = {name: value.copy() for name, value in found.items()}
        for value in found.values():
            if value.flags.writeable and not value.dtype.hasobject:
                value[...] = np.full((), _NOISE, np.uint8).astype(value.dtype)
        return copies

    def rewrite(
        self, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """Graph that the backend executes in place of a model."""
        return self._backend.rewrite(model, settings, seed)

    def infer_copy(self, network: Network, copy: Network) -> list[dict[str, Array]]:
        """Results of a network, and of the copy that ``load_copy`` made to run before it."""
        self.load("original", network)
        self._loaded["copy"] = self._timer.load_copy(
            copy, self._loaded["original"], private_cache_bytes=_PRIVATE_CACHE_BYTES
        )
        try:
            for _ in range(2):
                self.run("copy")
                copied = self._taken("copy")
                self.warm_io("original")
                self.run("original")
            return [self._taken("original"), copied]
        finally:
            self.unload("copy")
            self.unload("original")

    def seconds(self, key: str, times: int) -> list[tuple[float, float]]:
        """Seconds that each run takes: on the clock, and of CPU time."""
        found = []
        for _ in range(times):
            begin, cpu = perf_counter(), process_time()
            self.run(key)
            found.append((perf_counter() - begin, process_time() - cpu))
        return found

    def resident_bytes(self) -> int:
        """Bytes of memory that the process has in use."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def variables(self, names: tuple[str, ...]) -> dict[str, str | None]:
        """Values of environment variables in this process; ``None`` where one is not set."""
        return {name: os.environ.get(name) for name in names}

    def close(self) -> None:
        """Unloads everything and closes the timer."""
        for key in list(self._loaded):
            self.unload(key)
        self._timer.close()


def _bytes(arrays: Mapping[str, Array]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


_TIMEOUT_S = 300.0
"""Maximum seconds of a call."""

POISON = {"MALLOC_PERTURB_": "128"}
"""Environment in which glibc fills the memory that it hands out; as float32 it is 3.4e38."""


class Laboratory:
    """A worker that serves :class:`dlbricks_testing.laboratory.ConformanceHost`.

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
                "dlbricks_testing.laboratory:ConformanceHost",
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
"""Rounds, and the runs of each."""
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
