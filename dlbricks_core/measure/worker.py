"""Workers: child processes of backends, which are replaced after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dlbricks_core import values
from dlbricks_core.backends import Backend, BackendSettings, Profile, Timeline
from dlbricks_core.backends.burst import CALLS, Burst, WholeRun, start_of_a_line
from dlbricks_core.backends.host import POSITION_BYTES, is_copied
from dlbricks_core.errors import BackendError, DLBricksError
from dlbricks_core.ir import Array, CanonicalModel
from dlbricks_core.machine.load import give_turn, take_turn
from dlbricks_core.machine.system import largest_cache, near_caches
from dlbricks_core.measure.request import Request
from dlbricks_core.worker import WorkerError, WorkerProcess, memory_to_use, release
from dlbricks_core.worker.memory import tells_of_memory, ulimits

_UNSAID = "error return without exception set"
"""Message of CPython if memory for an error's message is lacking."""


@dataclass(frozen=True)
class Checked:
    """Networks that cannot be loaded, by key.

    Attributes:
        unsupported: Reason for each network that the backend does not support.
        failed: Reason for each network that could not be checked.
    """

    unsupported: Mapping[str, str]
    failed: Mapping[str, str]

    def __or__(self, other: Checked) -> Checked:
        return Checked({**self.unsupported, **other.unsupported}, {**self.failed, **other.failed})


class NetworkError(DLBricksError):
    """One of several networks failed.

    Attributes:
        key: Key of the network.
    """

    def __init__(self, key: str, error: DLBricksError) -> None:
        super().__init__(error.message, error.hint)
        self.key = key


def start_error(backend: str, error: DLBricksError) -> DLBricksError:
    """Error for a framework that does not start; no network is the cause."""
    limits = ulimits()
    lacked_memory = tells_of_memory(error.message) or _UNSAID in error.message
    if limits and (isinstance(error, WorkerError) or lacked_memory):
        return BackendError(
            f"{backend} does not start within {limits}: {error.message}",
            hint="Raise or remove that limit, or use another backend.",
        )
    return BackendError(f"{backend} does not start: {error.message}", hint=error.hint)


_START_S = 30.0
"""Seconds that importing a framework may take, beyond the limit of a network."""

_RESERVED_TIMES = 8
"""Limit of the address space of a worker that rewrites a model, as a multiple of its memory.
Weights of zeros are mapped once or twice, but occupy no memory.
"""

START_BYTES = 2**30
"""Maximum bytes of memory of a framework before it loads a network of notable size."""

_CHECK_BATCH = 64
"""Maximum number of networks in one call that checks them."""

_REST_TIMEOUT_S = 0.5
"""Maximum seconds to wait until the threads of the previous worker are idle."""

KEEPS_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""Environment of a worker whose allocator keeps freed memory for the next allocation.

By default, glibc returns freed feature maps above a threshold to the system, and moves the
threshold with the sizes that were freed before. A run that allocates these maps again causes page
faults: several percent of its latency, and more in a model than in its bricks. The threshold never
exceeds 32 MB (mallopt(3)).
"""


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker.

    Attributes:
        backend: Threads and options of the backend.
        seed: Seed of weights and inputs.
        timeout_s: Maximum time in seconds for a network to load or to run once.
        memory_bytes: Memory in bytes that the worker may allocate; ``None`` for 90% of the free
            memory.
        keeps_memory: Whether the worker's allocator keeps freed memory, as timing requires.
            Otherwise the allocator is in its default state.
        warm: Whether the worker loads small networks before its first job. Without them it cannot
            time networks, only observe them.
        as_used: Whether the backend has the settings of its users (:meth:`Backend.as_used`),
            instead of the settings for timing.
    """

    backend: BackendSettings
    seed: int = 0
    timeout_s: float = 120.0
    memory_bytes: int | None = None
    keeps_memory: bool = True
    warm: bool = True
    as_used: bool = False


class BackendWorker:
    """Loads and samples networks in a child process.

    Workers take turns: a worker begins only once the threads of the previous worker are idle, and
    while no other process measures on the same cores (:mod:`dlbricks_core.machine.load`). Every
    method that takes a network raises :class:`DLBricksError` with the reason if the network fails.
    The worker is then ready for the next network, and loads earlier networks again when they are
    next sampled.

    Args:
        target: The backend as ``"module:Class"``.
        backend: The backend.
        settings: Threads, options and limits.

    Attributes:
        call_ms: Cost of a call of the timer in milliseconds, as last measured.
    """

    #: Class of the service in the child process, as ``"module:Class"``.
    service: ClassVar[str] = "dlbricks_core.backends.host:TimerHost"

    _last: ClassVar[WorkerProcess | None] = None

    def __init__(self, target: str, backend: Backend, settings: WorkerSettings) -> None:
        self._target = target
        self._backend = backend
        self._settings = settings
        self._memory = self._room = settings.memory_bytes or memory_to_use()
        self._cache_bytes = largest_cache()
        self._private_cache_bytes = near_caches(settings.backend.threads) or 0
        self._networks: dict[str, tuple[CanonicalModel, str]] = {}
        self._latency_ms: dict[str, float] = {}
        self._worker: WorkerProcess | None = None
        self._ready = self._ended = self._asked = self._has_turn = False
        self._in_worker: set[str] = set()
        self.call_ms: float | None = None

    @classmethod
    def of(cls, request: Request, **settings: Any) -> Self:
        """A worker for a request, not started yet.

        Args:
            request: The request.
            settings: Further :class:`WorkerSettings`.
        """
        how = WorkerSettings(request.settings, request.seed, request.timeout_s, **settings)
        return cls(request.plugin.target, request.backend, how)

    @property
    def in_turns(self) -> bool:
        """Whether networks run in turns; see :attr:`Traits.in_turns`."""
        return self._backend.traits.in_turns

    @property
    def _backend_settings(self) -> BackendSettings:
        settings, as_used = self._settings.backend, self._settings.as_used
        return self._backend.as_used(replace(settings, as_used=True)) if as_used else settings

    @property
    def memory_bytes(self) -> int:
        """Known limit of the bytes of networks. Other limits may be lower."""
        return self._room

    def begin(self) -> None:
        """Begins to import the framework. Whatever is asked of the worker next waits for that."""
        self._launched(asked=False).begin("start", *self._start_arguments)

    def nbytes(self, model: CanonicalModel) -> int:
        """Computed bytes of a network, including the copy that primes the caches."""
        copied = self._backend.traits.primed and is_copied(model, self._cache_bytes)
        held = self._backend.traits.weights_held * (2 if copied else 1)
        return held * model.weight_bytes + model.live_bytes

    def load(self, key: str, model: CanonicalModel, kind: str = "") -> float:
        """Loads a network and returns its warm latency in milliseconds.

        Args:
            key: Key of the network.
            model: Model in canonical form.
            kind: Role in which it is timed: ``"brick"``, ``"model"`` or ``"native"``.
        """
        seed = self._settings.seed
        self._latency_ms[key] = float(self._call("load", key, model, seed, kind))
        self._networks[key] = model, kind
        self._in_worker.add(key)
        return self._latency_ms[key]

    def latency_ms(self, key: str) -> float:
        """Latency of a loaded network in milliseconds, taken when it was loaded."""
        return self._latency_ms[key]

    def sample(self, key: str, runs: int, *, warm_io: bool) -> list[float]:
        """Latencies of a number of runs of a loaded network, in milliseconds."""
        self._reload([key])
        samples: list[float] = self._call(
            "sample", key, runs, warm_io, extra_s=self._longest_s([key]) * runs
        )
        return samples

    def sample_in_turn(self, keys: Sequence[str], *, warm_io: bool) -> list[tuple[float, float]]:
        """Runs each of several loaded networks once, and measures the cost of a call of the timer.

        The worker runs them without a pause, as a model runs its layers, because any computation in
        between would change the caches.

        Returns:
            Latency of each network in milliseconds, and the seconds of the run including its
            preparation.

        Raises:
            NetworkError: If a network fails; the other networks then have no samples.
        """
        self._reload(keys)
        names = [*keys, *CALLS]
        path = self.start().folder / "position"
        with path.open("w+b", buffering=0) as position:
            longest_s = self._longest_s(keys)
            try:
                taken: list[tuple[float, float]] = self._call(
                    "sample_in_turn", names, warm_io, str(path), extra_s=longest_s
                )
            except DLBricksError as error:
                done = int.from_bytes(position.read(POSITION_BYTES), "little")
                raise NetworkError(names[done], error) from error
        self.call_ms = start_of_a_line([latency_ms for latency_ms, _ in taken[len(keys) :]])
        return taken[: len(keys)]

    def _reload(self, keys: Iterable[str]) -> None:
        """Loads networks again that only an earlier process had loaded."""
        for key in keys:
            if key not in self._in_worker:
                try:
                    self.load(key, *self._networks[key])
                except DLBricksError as error:
                    raise NetworkError(key, error) from error

    def _longest_s(self, keys: Iterable[str]) -> float:
        """Time limit in seconds for one run of each network; only a hanging network exceeds it."""
        return 5 * sum(self._latency_ms[key] for key in keys) / 1e3

    def measure_call(self, runs: int, *, warm_io: bool) -> None:
        """Measures the cost of a call of the timer as the median of a number of runs."""
        self.call_ms = start_of_a_line(
            [float(np.median(self._call("sample", key, runs, warm_io))) for key in CALLS]
        )

    def outputs(self, key: str) -> dict[str, Array]:
        """Outputs of the last run of a loaded network, by name."""
        results: dict[str, Array] = self._call("outputs", key)
        return results

    def infer(self, model: CanonicalModel) -> dict[str, Array]:
        """Outputs of a network by name: loads it, runs it twice, and unloads it."""
        settings = self._settings
        # One time limit for loading and the first run, and another for the second run.
        results: dict[str, Array] = self._call(
            "infer", model, settings.seed, extra_s=settings.timeout_s
        )
        return results

    def unload(self, key: str) -> None:
        """Unloads a network, if it is loaded."""
        self._networks.pop(key, None)
        if key in self._in_worker:
            self._in_worker.remove(key)
            self._call("unload", key)

    def observe(self, metric: str, model: CanonicalModel, *, whole: bool) -> tuple[float, ...]:
        """One observation of a network by a metric: values of the quantity and its parts.

        Args:
            metric: The metric as ``"module:Class"``.
            model: Model in canonical form.
            whole: Whether it is a whole model.
        """
        settings = self._settings
        # One time limit for loading and running the network, and another for doing so once more.
        values: tuple[float, ...] = self._call(
            "observe", metric, model, settings.seed, whole, extra_s=settings.timeout_s
        )
        return values

    def rewrite(self, model: CanonicalModel) -> CanonicalModel:
        """Graph that the backend executes in place of a whole model.

        Nothing is timed, so several workers may rewrite models at the same time.
        """
        settings, worker = self._settings, self._launched(asked=True)
        asked = self._target, model, settings.backend, settings.seed
        import_s = 0.0 if worker.started else _START_S
        made: CanonicalModel = self._answer(
            worker, "rewrite", *asked, timeout=settings.timeout_s + import_s
        )
        return made

    def profile(self, model: CanonicalModel, runs: int, latency_ms: float) -> Profile:
        """Profile of a whole model: the time of each operator, as the framework reports it.

        Args:
            model: Model in canonical form, with the names that ``rewrite`` is given.
            runs: Number of profiled runs after the warm-up.
            latency_ms: Approximate latency in milliseconds; a profiled run may take much longer.

        Raises:
            UnsupportedError: If the framework does not report it.
        """
        loop_s = 20 * runs * latency_ms / 1e3
        found: Profile = self._call("profile", model, self._settings.seed, runs, extra_s=loop_s)
        return found

    def timeline(self, model: CanonicalModel, latency_ms: float) -> Timeline:
        """Timeline of one run of a whole model, thread by thread, as the framework reports it.

        Args:
            model: Model in canonical form, with the names that ``rewrite`` is given.
            latency_ms: Approximate latency in milliseconds; a profiled run may take much longer.

        Raises:
            UnsupportedError: If the framework does not tell.
        """
        found: Timeline = self._call(
            "timeline", model, self._settings.seed, extra_s=100 * latency_ms / 1e3
        )
        return found

    def run_whole(self, model: CanonicalModel, burst: Burst, *, as_used: bool) -> WholeRun:
        """Runs a whole model in a loop of its own.

        Args:
            model: Model in canonical form.
            burst: Extent of the loop.
            as_used: Whether the user's own file or module runs, if :meth:`Backend.opens` accepts
                it, rather than the model as the IR lowers it.
        """
        settings = self._settings
        inputs = None
        if as_used:
            # Values are drawn in this process: the allocator of the process that runs a user's
            # model must not have freed much memory before, as in a user's process.
            drawn = values.materialize(model, settings.seed, model.weights, noise=True)
            inputs = drawn.inputs
        # One time limit for loading, and one for the runs, whose number is unknown.
        found: WholeRun = self._call(
            "run_whole", model, settings.seed, burst, inputs, extra_s=settings.timeout_s
        )
        return found

    def restart_above(self, nbytes: int) -> None:
        """Starts a new process if this one takes more memory after unloading all networks.

        Some frameworks keep freed memory for networks of the same size.
        """
        if self._worker is not None and int(self._call("resident_bytes")) > nbytes:
            self.restart()

    def check(self, models: Mapping[str, CanonicalModel]) -> Checked:
        """Networks that cannot be loaded, according to the backend's check before loading.

        Args:
            models: Networks in canonical form, by a key that the caller chooses.
        """
        checked = Checked({}, {})
        items = list(models.items())
        for start in range(0, len(items), _CHECK_BATCH):
            checked |= self._checked(dict(items[start : start + _CHECK_BATCH]))
        return checked

    def _checked(self, models: dict[str, CanonicalModel]) -> Checked:
        self.start()  # a framework that does not start is not the fault of a network
        try:
            return Checked(self._call("check", self._target, models), {})
        except BackendError as error:
            if len(models) == 1:
                return Checked({}, dict.fromkeys(models, f"checking it: {error}"))
        # One of the networks breaks the check or its worker, so each network is checked alone.
        checked = Checked({}, {})
        for key, model in models.items():
            checked |= self._checked({key: model})
        return checked

    def _call(self, method: str, *arguments: Any, extra_s: float = 0.0) -> Any:
        worker = self.start()
        if BackendWorker._last not in (None, worker):
            BackendWorker._last.rest(_REST_TIMEOUT_S)
        BackendWorker._last = worker
        timeout = self._settings.timeout_s + extra_s
        return self._answer(worker, method, *arguments, timeout=timeout)

    def _answer(self, worker: WorkerProcess, method: str, *arguments: Any, timeout: float) -> Any:
        try:
            return worker.call(method, *arguments, timeout=timeout)
        except WorkerError:
            self._discard()
            raise

    def start(self) -> WorkerProcess:
        """The child process, with the framework imported and ready to time.

        Without a call, the first network imports it.
        """
        release()
        worker = self._launched(asked=False)
        if not self._ready:
            timeout = self._settings.timeout_s + _START_S
            try:
                self._room = self._answer(worker, "start", *self._start_arguments, timeout=timeout)
            except DLBricksError as error:
                self._discard()
                raise start_error(self._backend.name, error) from error
            self._ready = True
        return worker

    @property
    def _start_arguments(self) -> tuple[Any, ...]:
        """Arguments of :meth:`TimerHost.start`."""
        return (
            self._target,
            self._backend_settings,
            self._memory,
            self._cache_bytes,
            self._private_cache_bytes,
            self._settings.warm,
            self._settings.keeps_memory,
        )

    def _launched(self, *, asked: bool) -> WorkerProcess:
        """The child process, for timing or rewriting. Its memory is limited while it rewrites."""
        if self._worker is not None and self._asked != asked:
            self._discard()
        if self._worker is None:
            if not asked:
                take_turn()
                self._has_turn = True
            environment = self._backend.environment(self._backend_settings)
            memory = max(self._memory, START_BYTES)
            worker = WorkerProcess(
                self.service,
                {**(KEEPS_MEMORY if self._settings.keeps_memory else {}), **environment},
                memory=memory * _RESERVED_TIMES if asked else memory,
                resident=memory if asked else 0,
            )
            self._worker, self._asked = worker, asked
            if self._ended:  # another thread closed it when the run was interrupted
                self._discard()
                raise BackendError("the worker is closed")
        return self._worker

    def _discard(self) -> None:
        # A thread other than the caller's may close the worker.
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            self._ready = False
            self._in_worker.clear()
        self._give_turn()

    def _give_turn(self) -> None:
        had, self._has_turn = self._has_turn, False
        if had:
            give_turn()

    def restart(self) -> None:
        """Ends the process with all its networks; the next call starts a new one.

        After many small networks, the allocator's free memory is fragmented, and too small for
        large feature maps.
        """
        self.close()
        self._networks.clear()
        self._in_worker.clear()

    def close(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
            self._ready = False
        self._give_turn()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended = True
        if exception[0] is not None:
            self._discard()
        self.close()
