"""Workers of backends, which are replaced when a network breaks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any, ClassVar

import numpy as np

from dlbricks_core.backends import Backend, BackendSettings, Profile, Timeline
from dlbricks_core.backends.host import CALLS, POSITION_BYTES, is_copied
from dlbricks_core.errors import BackendError, DLBricksError
from dlbricks_core.ir import Array, CanonicalModel
from dlbricks_core.machine.system import largest_cache, near_caches
from dlbricks_core.machine.turns import give_turn, take_turn
from dlbricks_core.worker import WorkerError, WorkerProcess, memory_to_use
from dlbricks_core.worker.memory import tells_of_memory, ulimits

_START_S = 30.0
"""Seconds that importing a framework may take, beside what a network may take."""

_RESERVED_TIMES = 8
"""Memory that a worker may map while it rewrites a model, as a multiple of what it may use. Weights
of zeros are mapped once or twice and use none."""

START_BYTES = 2**30
"""Memory in bytes that a framework may take, with networks of next to no work loaded."""

_CHECK_BATCH = 64
_REST_TIMEOUT_S = 0.5

KEEPS_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""Environment of a worker whose allocator keeps what is freed, for what allocates next.

By default, glibc returns freed feature maps to the system above a threshold, which moves with the
sizes that were freed before. A run that allocates them anew pays for page faults: several percent
of its latency, and more in a model than in its bricks. The threshold never moves beyond 32 MB
(mallopt(3)).
"""


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker.

    Attributes:
        backend: Threads and options of the backend.
        seed: Seed of weights and inputs.
        timeout_s: Longest time in seconds that a network may take to load or to run once.
        memory_bytes: Memory in bytes that the worker may allocate; ``None`` for 90% of what is
            free.
        keeps_memory: Whether the worker's allocator keeps what is freed, as timing needs it;
            otherwise it does what a user's process does.
    """

    backend: BackendSettings
    seed: int = 0
    timeout_s: float = 120.0
    memory_bytes: int | None = None
    keeps_memory: bool = True


@dataclass(frozen=True)
class Checked:
    """Networks that cannot be loaded, by key.

    Attributes:
        unsupported: Reason for each network that the backend has no counterpart for.
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


class BackendWorker:
    """Loads and samples networks in a process of their own.

    Workers take turns: none begins before the threads of the last one rest, nor while another
    process measures on the same cores (:mod:`dlbricks_core.machine.turns`). Every method that is
    given a network raises :class:`DLBricksError` with the reason if the network fails. The worker
    is then ready for the next network. Networks that were loaded before are loaded again when they
    are next sampled.

    Args:
        target: The backend as ``"module:Class"``.
        backend: The backend.
        settings: Threads, options and limits.

    Attributes:
        call_ms: Cost of a call of the timer in milliseconds, as last measured.
    """

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

    @property
    def in_turns(self) -> bool:
        """Whether networks run in turns; see :attr:`Traits.in_turns`."""
        return self._backend.traits.in_turns

    @property
    def memory_bytes(self) -> int:
        """Bytes that the networks may take, as far as is known: other limits may leave less."""
        return self._room

    def start(self) -> None:
        """Imports the framework, unless that is done; the first network would do it."""
        self._started()

    def nbytes(self, model: CanonicalModel) -> int:
        """Bytes that a network takes by our count, with the copy that primes it."""
        copied = self._backend.traits.primed and is_copied(model, self._cache_bytes)
        held = self._backend.traits.weights_held * (2 if copied else 1)
        return held * model.weight_bytes + model.live_bytes

    def load(self, key: str, model: CanonicalModel, kind: str = "") -> float:
        """Loads a network and returns its latency when warm, in milliseconds.

        Args:
            key: Key of the network.
            model: In canonical form.
            kind: What it is timed as: ``"brick"``, ``"model"`` or ``"native"``.
        """
        seed = self._settings.seed
        self._latency_ms[key] = float(self._call("load", key, model, seed, kind))
        self._networks[key] = model, kind
        self._in_worker.add(key)
        return self._latency_ms[key]

    def latency_ms(self, key: str) -> float:
        """Latency of a loaded network in milliseconds, as it was when it was loaded."""
        return self._latency_ms[key]

    def sample(self, key: str, runs: int, *, warm_io: bool) -> list[float]:
        """Latencies in milliseconds of a number of runs of a loaded network."""
        self._reload([key])
        samples: list[float] = self._call(
            "sample", key, runs, warm_io, extra_s=self._longest_s([key]) * runs
        )
        return samples

    def sample_in_turn(self, keys: Sequence[str], *, warm_io: bool) -> list[tuple[float, float]]:
        """Runs each of several loaded networks once, and measures what a call of the timer costs.

        The worker goes from one to the next without a pause, as a model does from layer to
        layer: whatever else computed in between would leave its traces in the caches.

        Returns:
            Latency of each in milliseconds, and the seconds that the run took with what comes
            before it.

        Raises:
            NetworkError: If one of them fails. The others have no samples then.
        """
        self._reload(keys)
        names = [*keys, *CALLS]
        path = self._started().folder / "position"
        with path.open("w+b", buffering=0) as position:
            asked = names, warm_io, str(path)
            try:
                taken: list[tuple[float, float]] = self._call(
                    "sample_in_turn", *asked, extra_s=self._longest_s(keys)
                )
            except DLBricksError as error:
                done = int.from_bytes(position.read(POSITION_BYTES), "little")
                raise NetworkError(names[done], error) from error
        self.call_ms = start_of_a_line([latency_ms for latency_ms, _ in taken[len(keys) :]])
        return taken[: len(keys)]

    def _reload(self, keys: Iterable[str]) -> None:
        """Loads the networks that are not in the process: an earlier one had loaded them."""
        for key in keys:
            if key not in self._in_worker:
                try:
                    self.load(key, *self._networks[key])
                except DLBricksError as error:
                    raise NetworkError(key, error) from error

    def _longest_s(self, keys: Iterable[str]) -> float:
        """Seconds that a run of each may take: long enough unless one hangs."""
        return 5 * sum(self._latency_ms[key] for key in keys) / 1e3

    def measure_call(self, runs: int, *, warm_io: bool) -> None:
        """Measures the cost of a call of the timer: the median of a number of runs."""
        self.call_ms = start_of_a_line(
            [float(np.median(self._call("sample", key, runs, warm_io))) for key in CALLS]
        )

    def outputs(self, key: str) -> dict[str, Array]:
        """Results of a loaded network's last run, by name."""
        results: dict[str, Array] = self._call("outputs", key)
        return results

    def infer(self, model: CanonicalModel) -> dict[str, Array]:
        """Outputs of a network by name: loads it, runs it twice, and unloads it."""
        settings = self._settings
        # One limit for loading and the first run, as elsewhere, and one for the second.
        results: dict[str, Array] = self._call(
            "infer", model, settings.seed, extra_s=settings.timeout_s
        )
        return results

    def unload(self, key: str) -> None:
        """Frees a network, if it is loaded."""
        self._networks.pop(key, None)
        if key in self._in_worker:
            self._in_worker.remove(key)
            self._call("unload", key)

    def observe(self, probe: str, model: CanonicalModel) -> tuple[float, ...]:
        """One observation of a network: its values, as the probe tells them.

        Args:
            probe: The probe as ``"module:Class"``.
            model: In canonical form.
        """
        settings = self._settings
        # One limit for loading and running the network, and one for doing so once more.
        values: tuple[float, ...] = self._call(
            "observe", probe, model, settings.seed, extra_s=settings.timeout_s
        )
        return values

    def rewrite(self, model: CanonicalModel) -> CanonicalModel:
        """Graph that the backend executes in place of a whole model.

        Nothing is timed, so several workers may do so at the same time.
        """
        settings, worker = self._settings, self._launched(asked=True)
        asked = self._target, model, settings.backend, settings.seed
        import_s = 0.0 if worker.started else _START_S
        made: CanonicalModel = self._answer(
            worker, "rewrite", *asked, timeout=settings.timeout_s + import_s
        )
        return made

    def profile(self, model: CanonicalModel, runs: int, latency_ms: float) -> Profile:
        """Where the time of a whole model goes, as the framework itself sees it.

        Args:
            model: In canonical form, with the names that ``rewrite`` is given.
            runs: Number of runs that count.
            latency_ms: Approximate latency in milliseconds; a profiled run may take much longer.

        Raises:
            UnsupportedError: If the framework does not tell.
        """
        loop_s = 20 * runs * latency_ms / 1e3
        found: Profile = self._call("profile", model, self._settings.seed, runs, extra_s=loop_s)
        return found

    def timeline(self, model: CanonicalModel, latency_ms: float) -> Timeline:
        """What each thread does in one run of a whole model, as the framework itself sees it.

        Args:
            model: In canonical form, with the names that ``rewrite`` is given.
            latency_ms: Approximate latency in milliseconds; a profiled run may take much longer.

        Raises:
            UnsupportedError: If the framework does not tell.
        """
        found: Timeline = self._call(
            "timeline", model, self._settings.seed, extra_s=100 * latency_ms / 1e3
        )
        return found

    def check(self, models: Mapping[str, CanonicalModel]) -> Checked:
        """Networks that cannot be loaded, by what the backend says of them beforehand.

        Args:
            models: In canonical form, by a key that the caller chooses.
        """
        checked = Checked({}, {})
        items = list(models.items())
        for start in range(0, len(items), _CHECK_BATCH):
            checked |= self._checked(dict(items[start : start + _CHECK_BATCH]))
        return checked

    def _checked(self, models: dict[str, CanonicalModel]) -> Checked:
        self._started()  # a framework that does not start is no model's fault
        try:
            return Checked(self._call("check", self._target, models), {})
        except BackendError as error:
            if len(models) == 1:
                return Checked({}, dict.fromkeys(models, f"checking it: {error}"))
        # One of them breaks the check or its worker: find out which.
        checked = Checked({}, {})
        for key, model in models.items():
            checked |= self._checked({key: model})
        return checked

    def _call(self, method: str, *arguments: Any, extra_s: float = 0.0) -> Any:
        worker = self._started()
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

    def _started(self) -> WorkerProcess:
        """The process with the framework imported, ready to time."""
        worker = self._launched(asked=False)
        if not self._ready:
            start = (
                self._target,
                self._settings.backend,
                self._memory,
                self._cache_bytes,
                self._private_cache_bytes,
            )
            timeout = self._settings.timeout_s + _START_S
            try:
                self._room = self._answer(worker, "start", *start, timeout=timeout)
            except DLBricksError as error:
                self._discard()
                raise _start_error(self._backend.name, error) from error
            self._ready = True
        return worker

    def _launched(self, *, asked: bool) -> WorkerProcess:
        """The process, for timing or for rewriting. While it rewrites, its memory is watched."""
        if self._worker is not None and self._asked != asked:
            self._discard()
        if self._worker is None:
            if not asked:
                take_turn()
                self._has_turn = True
            environment = self._backend.environment(self._settings.backend)
            memory = max(self._memory, START_BYTES)
            worker = WorkerProcess(
                "dlbricks_core.backends.host:TimerHost",
                {**(KEEPS_MEMORY if self._settings.keeps_memory else {}), **environment},
                memory=memory * _RESERVED_TIMES if asked else memory,
                resident=memory if asked else 0,
            )
            self._worker, self._asked = worker, asked
            if self._ended:  # by another thread, when the run was interrupted
                self._discard()
                raise BackendError("the worker is closed")
        return self._worker

    def _discard(self) -> None:
        # Another thread than the one that calls may close the worker.
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
        """Frees all networks; the next call starts a new process.

        The memory that an allocator keeps after many small networks is in pieces, between which
        large feature maps find no room.
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

    def __enter__(self) -> BackendWorker:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended = True
        if exception[0] is not None:
            self._discard()
        self.close()


_UNSAID = "error return without exception set"
"""What CPython says of an error that it lacked the memory to describe."""


def _start_error(backend: str, error: DLBricksError) -> DLBricksError:
    """Error that says why a framework does not start; no network is to blame."""
    limits = ulimits()
    told = tells_of_memory(error.message) or _UNSAID in error.message
    if limits and (isinstance(error, WorkerError) or told):
        return BackendError(
            f"{backend} does not start within {limits}: {error.message}",
            hint="Raise or remove that limit, or use another backend.",
        )
    return BackendError(f"{backend} does not start: {error.message}", hint=error.hint)


def start_of_a_line(latencies_ms: Sequence[float]) -> float:
    """Cost of a call without its layers, from what the networks in ``CALLS`` take.

    Values lie on a line over the number of layers, and the line begins at the call's own cost. The
    least that any layer costs is not in it, because a model pays that for each layer.
    """
    slope, start = linear_regression(list(CALLS.values()), latencies_ms)
    return max(start, 0.0) if slope > 0 else min(latencies_ms)
