"""The service that hosts one backend inside a worker process."""

from __future__ import annotations

import gc
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from dlbricks_core import values
from dlbricks_core.backends.base import WARMUP_RUNS, Backend, CpuTimer
from dlbricks_core.backends.burst import CALLS, Burst, WholeRun, next_to_nothing
from dlbricks_core.backends.profiles import Opened, Profile, Timeline, timed_ms
from dlbricks_core.backends.saved import AuxiliaryProcess, Saved
from dlbricks_core.backends.traits import BackendSettings
from dlbricks_core.bricks import weights_are_reread
from dlbricks_core.errors import BackendError, first_line
from dlbricks_core.ir import Array, CanonicalModel, Network
from dlbricks_core.plugins import load_object
from dlbricks_core.worker.memory import MIB, give_back, keep_freed, limit_memory, resident_mib

POSITION_BYTES = 8
"""Bytes of the number in the file that :meth:`TimerHost.sample_in_turn` writes."""

_LONG_MS = 100.0
"""Latency in milliseconds from which a network needs fewer runs to warm up and no priming, since
either changes too little in so long a run."""

_KEPT = 4
"""Size up to which a cache keeps some of the data that are read over and over, as a multiple of the
size of the cache. With ONNX Runtime on an AMD EPYC with a cache of 32 MB, a network of 63 MB took
1.5 ms in a loop, 1.9 ms right after a run of its own, and 2.2 ms after a run of its copy."""

_UNKNOWN_CACHE_BYTES = 2**29
"""Bytes of the largest cache if the system does not report it; few processors have more."""

_WAKE = "wake"
_WAKE_SHAPE = (16, 1024)
"""Shape that is large enough to be shared among threads, and fits into the nearest caches."""


class TimerHost:
    """Service inside a worker that loads networks into one timer and times them.

    The parent gives each network a key.
    """

    def __init__(self) -> None:
        self._backend: Backend | None = None
        self._timer: CpuTimer[Any] | None = None
        self._loaded: dict[str, Any] = {}
        self._twins: dict[str, Any] = {}
        self._primed = False
        self._cache_bytes: int | None = None
        self._private_cache_bytes = 0
        self._wake: Any = None
        self._metrics: dict[str, Any] = {}

    @property
    def timer(self) -> CpuTimer[Any]:
        """The backend's timer.

        Raises:
            BackendError: If ``start`` was not called.
        """
        if self._timer is None:
            raise BackendError("the worker was not started")
        return self._timer

    def reason(self, error: Exception) -> str:
        """Message of an exception, in the backend's wording."""
        return first_line(error) if self._backend is None else self._backend.reason(error)

    def _described_by(self, backend: str) -> Backend:
        """The backend ``"module:Class"``, which also words exceptions from now on."""
        found: Backend = load_object(backend)()
        self._backend = found
        return found

    def start(
        self,
        backend: str,
        settings: BackendSettings,
        memory: int | None,
        cache_bytes: int | None,
        private_cache_bytes: int,
        warm: bool,
        keeps_memory: bool,
    ) -> int | None:
        """Imports the framework and loads the networks that show the cost of a call.

        Args:
            backend: ``"module:Class"`` of the backend.
            settings: Threads and options.
            memory: Memory that the framework and the networks may use, in bytes; ``None`` for
                no limit.
            cache_bytes: Size of the largest cache; ``None`` if it is unknown.
            private_cache_bytes: Size of the cores' private caches together; 0 if it is unknown.
            warm: Whether networks are loaded. Without small networks, nothing can be timed: a
                metric then observes a new process.
            keeps_memory: Whether the allocator keeps freed memory. Otherwise it stays in its
                default state, as in a user's process.

        Returns:
            Memory that is left to the networks, in bytes; ``None`` without a limit.
        """
        instance = self._described_by(backend)
        self._timer = instance.timer(settings)
        self._timer.importing = instance.importing
        self._timer.traits = instance.traits
        self._timer.elsewhere = partial(AuxiliaryProcess, backend, settings)
        CpuTimer.present = self._timer
        self._primed = instance.traits.primed
        self._cache_bytes = cache_bytes
        self._private_cache_bytes = private_cache_bytes
        # A garbage collection in the middle of a timed run would count as latency. Objects of the
        # framework stay for good, so that collections between networks need not visit them.
        gc.disable()
        gc.freeze()
        if keeps_memory:
            keep_freed()
        if warm:
            for key, layers in CALLS.items():
                self.load(key, instance.smallest(layers) or next_to_nothing(layers), 0, "brick")
            self.load(_WAKE, instance.smallest(1) or next_to_nothing(1, _WAKE_SHAPE), 0)
            self._wake = self._loaded[_WAKE]
        # Memory that the framework holds and never uses does not count.
        return None if memory is None else limit_memory(memory)

    def load(self, key: str, model: CanonicalModel, seed: int, kind: str = "") -> float:
        """Draws values for a network, loads it, checks its results and warms it up.

        Args:
            key: Key of the network from now on.
            model: Model in canonical form.
            seed: Seed of weights and inputs.
            kind: Kind of the network: ``"brick"``, ``"model"``, or ``"native"`` for a model as
                its own framework runs it. Networks of no kind are never primed.

        Returns:
            Latency of the last warm-up run, in milliseconds.

        Raises:
            BackendError: If a result is not a number (NaN).
            UnsupportedError: If the framework has no counterpart for a layer.
        """
        load = self.timer.load_native if kind == "native" else self.timer.load
        loaded = self._tried(load(self._drawn(model, seed, kind)))
        self._loaded[key] = loaded
        latency_ms = self._warmed_up(key)
        if kind and (self._primed or weights_are_reread(model)) and latency_ms < _LONG_MS:
            copied = kind != "native" and is_copied(model, self._cache_bytes)
            self._twins[key] = self._copied(loaded, model, seed, kind) if copied else loaded
        return latency_ms

    def _drawn(self, model: CanonicalModel, seed: int, kind: str) -> Network:
        """A network with values for whatever the framework does not draw itself."""
        if self.timer.traits.blocks_only:
            return values.materialize(model, seed, without=model.weights)
        if kind == "model":
            return _with_own_weights(model, seed)
        return values.materialize(model, seed)

    def _copied(self, loaded: Any, model: CanonicalModel, seed: int, kind: str) -> Any:
        """A copy of a network with other weights, loaded to run before the network."""
        private = self._private_cache_bytes if kind == "brick" else 0
        other = values.materialize(model, seed + 1)
        return self.timer.load_copy(other, loaded, private_cache_bytes=private)

    def _warmed_up(self, key: str) -> float:
        """Latency of the last warm-up run, in milliseconds. A long run ends the warm-up."""
        for _ in range(WARMUP_RUNS):
            latency_ms = self.sample(key, 1, warm_io=False)[-1]
            if latency_ms >= _LONG_MS:
                break
        return latency_ms

    def _tried(self, loaded: Any) -> Any:
        """The network after a first run; if its results cannot be used, it is unloaded."""
        try:
            self._run(loaded)
            _check_numbers(self.timer.outputs(loaded))
        except BaseException:
            self.timer.unload(loaded)
            raise
        return loaded

    def save(self, model: CanonicalModel, seed: int, folder: Path) -> Saved[Any]:
        """Draws values for a network, and writes it to files for another process to open.

        Args:
            model: Model in canonical form.
            seed: Seed of weights and inputs.
            folder: An empty folder.
        """
        return self.timer.save(values.materialize(model, seed), folder)

    def apply(self, function: str, *arguments: Any) -> Any:
        """Result of a function ``"module:function"`` that takes the timer first."""
        return load_object(function)(self.timer, *arguments)

    def infer(self, model: CanonicalModel, seed: int) -> dict[str, Array]:
        """Loads a network, runs it twice, unloads it, and returns its results by name.

        Outputs of the second run, which must not depend on state of the first run.

        Args:
            model: Model in canonical form.
            seed: Seed of weights and inputs.

        Raises:
            BackendError: If a result is not a number (NaN).
            UnsupportedError: If the framework has no counterpart for a layer.
        """
        loaded = self._tried(self.timer.load(values.materialize(model, seed)))
        try:
            self._run(loaded)
            return dict(self.timer.outputs(loaded))
        finally:
            self.timer.unload(loaded)
            del loaded
            gc.collect()

    def sample(self, key: str, runs: int, warm_io: bool) -> list[float]:
        """Latencies of some runs, in milliseconds.

        Args:
            key: Key of a loaded network.
            runs: Number of runs.
            warm_io: Whether each run is prepared: inputs and outputs are brought into the caches,
                and threads that have fallen asleep are woken.
        """
        timer, loaded, twin = self.timer, self._loaded[key], self._twins.get(key)
        run, synchronize = timer.run, timer.synchronize
        samples = []
        for _ in range(runs):
            if warm_io:
                if twin is not None:
                    # The copy's results stay, because results of earlier layers also occupy
                    # warm memory in a model.
                    self._run(twin)
                timer.warm_io(loaded)
                # This wakes the framework's threads and warms the code of a call, as in the
                # middle of a model. It takes hardly any room in the caches.
                self._run(self._wake)
                timer.release(self._wake)
            begin = perf_counter_ns()
            run(loaded)
            synchronize(loaded)
            samples.append((perf_counter_ns() - begin) / 1e6)
            if warm_io:
                timer.release(loaded)
                if twin is not None:
                    timer.release(twin)
        return samples

    def run_whole(
        self,
        model: CanonicalModel,
        seed: int,
        burst: Burst,
        inputs: Mapping[str, Array] | None,
    ) -> WholeRun:
        """Loads a whole model, runs it in a loop of its own, and unloads it.

        Args:
            model: Model in canonical form.
            seed: Seed of the weights and inputs that are drawn.
            burst: Extent of the loop.
            inputs: Values of the inputs by name, for the user's own model (:meth:`CpuTimer.open`).
                ``None`` for the model as the IR lowers it.
        """
        begin = perf_counter()
        opening = self._lowered(model, seed) if inputs is None else self._own(model, inputs, burst)
        with opening as opened:
            if opened.profile is None:
                opened.run()
            loading_s = perf_counter() - begin - opened.profiling_s
            samples = burst.taken(partial(timed_ms, opened.run), opened)
            return WholeRun(tuple(samples), loading_s, opened.profile)

    def resident_bytes(self) -> int:
        """Bytes of the process, including memory that its allocators keep."""
        return int(resident_mib() * MIB)

    @contextmanager
    def _own(
        self, model: CanonicalModel, inputs: Mapping[str, Array], burst: Burst
    ) -> Iterator[Opened]:
        # Arrays are aligned in memory as in a user's program, not as the parent sent them: by
        # the alignment of its input, a network of ONNX Runtime took 10.6 or 16 ms.
        own = {name: value.copy() for name, value in inputs.items()}
        yield self.timer.open(model, own, burst.profiled)

    @contextmanager
    def _lowered(self, model: CanonicalModel, seed: int) -> Iterator[Opened]:
        loaded = self._tried(self.timer.load(_with_own_weights(model, seed, noise=True)))
        try:
            yield Opened(partial(self._run, loaded))
        finally:
            self.timer.unload(loaded)

    def sample_in_turn(
        self, keys: Sequence[str], warm_io: bool, position: str
    ) -> list[tuple[float, float]]:
        """Runs several networks once each, one right after the other.

        Args:
            keys: Keys of loaded networks.
            warm_io: As for :meth:`sample`.
            position: File with the number of finished networks, in case a network ends the process.

        Returns:
            Latency of each network in milliseconds, and the seconds that the run took together
            with its preparation.
        """
        taken = []
        with Path(position).open("r+b", buffering=0) as file:
            for done, key in enumerate(keys):
                begin = perf_counter()
                os.pwrite(file.fileno(), done.to_bytes(POSITION_BYTES, "little"), 0)
                (latency_ms,) = self.sample(key, 1, warm_io)
                taken.append((latency_ms, perf_counter() - begin))
        return taken

    def _run(self, loaded: Any) -> None:
        self.timer.run(loaded)
        self.timer.synchronize(loaded)

    def outputs(self, key: str) -> dict[str, Array]:
        """Results of the last run of a network, by name."""
        return dict(self.timer.outputs(self._loaded[key]))

    def unload(self, key: str) -> None:
        """Frees one network."""
        loaded = self._loaded.pop(key)
        twin = self._twins.pop(key, loaded)
        if twin is not loaded:
            self.timer.unload(twin)
        self.timer.unload(loaded)
        del loaded, twin  # a timer may leave it to the last reference to free the memory
        give_back()

    def observe(
        self, metric: str, model: CanonicalModel, seed: int, whole: bool
    ) -> tuple[float, ...]:
        """Observation of a network by a metric: the value of its quantity, and of each part.

        The metric stays the same object for all networks of the process.

        Args:
            metric: ``"module:Class"`` of the metric.
            model: Model in canonical form.
            seed: Seed of weights and inputs.
            whole: Whether the network is a whole model.

        Raises:
            BackendError: If the metric returns other values.
        """
        gc.collect()
        instance = self._metrics.get(metric) or load_object(metric)()
        self._metrics[metric] = instance
        observe = instance.observe_whole if whole else instance.observe
        found = observe(self.timer, model, seed)
        if not isinstance(found, Sequence):
            raise BackendError(
                f"the metric {metric} returned {found!r} instead of a sequence of values"
            )
        values = tuple(map(float, found))
        if not all(0 <= value < math.inf for value in values):
            raise BackendError(
                f"the metric {metric} returned {values}: values must be finite, and 0 or more"
            )
        if len(values) != 1 + len(instance.parts) and not (whole and len(values) == 1):
            raise BackendError(
                f"the metric {metric} returns {len(values)} values of a quantity with "
                f"{len(instance.parts)} parts"
            )
        return values

    def rewrite(
        self, backend: str, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """Graph that the backend executes in place of a whole model."""
        return self._described_by(backend).rewrite(model, settings, seed)

    def profile(self, model: CanonicalModel, seed: int, runs: int) -> Profile:
        """Time of each layer of a whole model, as the framework's profiler measures it."""
        return self.timer.profile(values.materialize(model, seed), runs)

    def timeline(self, model: CanonicalModel, seed: int) -> Timeline:
        """Activity of each thread in one run of a whole model, from the framework's profiler."""
        return self.timer.timeline(values.materialize(model, seed))

    def check(self, backend: str, models: Mapping[str, CanonicalModel]) -> dict[str, str]:
        """Reason for each model that the backend cannot run, by the model's key."""
        instance = self._described_by(backend)
        reasons = {}
        for key, model in models.items():
            missing = instance.check(model)
            if missing:
                named = (_naming(model.layers[i].op, why) for i, why in missing.items())
                reasons[key] = "; ".join(dict.fromkeys(named))
        return reasons


def _naming(operator: str, reason: str) -> str:
    """A reason why a layer is unsupported, which names its operator."""
    return reason if operator in re.findall(r"\w+", reason) else f"{operator}: {reason}"


def _with_own_weights(model: CanonicalModel, seed: int, *, noise: bool = False) -> Network:
    """A whole model with the weights of its file if available, and drawn weights otherwise.

    Denormal numbers take many times as long, and values decide branches.
    """
    from dlbricks_core.ir.own_weights import own_weights  # the onnx package takes long to import

    own = own_weights(model)
    drawn = values.materialize(model, seed, own.keys(), noise=noise)
    return replace(drawn, weights={**drawn.weights, **own})


def is_copied(model: CanonicalModel, cache_bytes: int | None) -> bool:
    """Whether a network is primed by a copy, rather than by a run of its own.

    If the weights are so large that no cache keeps any of them, they are cold even after a run of
    the network itself. If the network's model has just read the weights, they are meant to be warm.

    Args:
        model: The network.
        cache_bytes: Bytes of the largest cache. If the size is unknown, a large one is assumed: a
            copy is the safe choice.
    """
    if weights_are_reread(model):
        return False
    return model.weight_bytes < _KEPT * (
        _UNKNOWN_CACHE_BYTES if cache_bytes is None else cache_bytes
    )


def _check_numbers(outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    # Infinity is a legitimate result (an attention mask holds it), NaN never is.
    for name, value in outputs.items():
        if value.dtype.kind in "fc" and np.isnan(value).any():
            raise BackendError(f"output {name} holds NaN")
