"""The service that calls a backend's timer in a worker process, a method at a time."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from dlbricks_core.backends import Array, Backend, BackendSettings, CpuTimer, Network
from dlbricks_core.ir import Model
from dlbricks_core.plugins import load_object


class ConformanceHost:
    """One backend with its timer; runs inside the worker."""

    def __init__(self) -> None:
        self._backend: Backend
        self._timer: CpuTimer[Any]
        self._loaded: dict[str, Any] = {}

    def start(self, target: str, settings: BackendSettings) -> None:
        """Makes the timer of the backend that ``"module:Class"`` names."""
        self._backend = load_object(target)()
        self._timer = self._backend.timer(settings)
        # What is there by now stays: collections need not go through all of it again.
        gc.freeze()

    def check(self, model: Model) -> dict[int, str]:
        """What the backend says that it cannot run."""
        return dict(self._backend.check(model))

    def load(self, key: str, network: Network) -> None:
        """Loads a network under a key."""
        self._loaded[key] = self._timer.load(network)

    def run(self, key: str, times: int = 1) -> None:
        """Runs a network to its end, so often."""
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
        """Results of a network, looked at after it ran again, another ran, and it was unloaded."""
        results = self.outputs(key)
        self.run(other)
        self.unload(key)
        return results

    def infer(self, network: Network) -> dict[str, Array]:
        """Loads, runs twice, and unloads a network; the results of the second run."""
        self.load("infer", network)
        try:
            self.warm_io("infer")
            self.run("infer", 2)
            return {name: value.copy() for name, value in self.outputs("infer").items()}
        finally:
            self.unload("infer")

    def values(self, network: Network) -> bool:
        """Whether loading, warming and running leave the given values as they are."""
        before = _bytes({**network.weights, **network.inputs})
        self.infer(network)
        return _bytes({**network.weights, **network.inputs}) == before

    def seconds(self, key: str, times: int) -> list[tuple[float, float]]:
        """Seconds on the clock and of CPU time that each run takes."""
        found = []
        for _ in range(times):
            begin, cpu = perf_counter(), process_time()
            self.run(key)
            found.append((perf_counter() - begin, process_time() - cpu))
        return found

    def resident_bytes(self) -> int:
        """Memory in use."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def variables(self, names: tuple[str, ...]) -> dict[str, str | None]:
        """Environment variables as this process sees them."""
        return {name: os.environ.get(name) for name in names}

    def close(self) -> None:
        """Unloads everything and closes the timer."""
        for key in list(self._loaded):
            self.unload(key)
        self._timer.close()


def _bytes(arrays: Mapping[str, Array]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}
