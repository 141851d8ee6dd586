"""Networks in files, as users of a framework keep them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from dlbricks_core.ir import Array, CanonicalModel, Network
from dlbricks_core.worker import WorkerProcess

if TYPE_CHECKING:
    from dlbricks_core.backends.traits import BackendSettings
    from dlbricks_core.ir import CanonicalModel


LoadedT = TypeVar("LoadedT")


class Saved(ABC, Generic[LoadedT]):
    """A network that a timer has written to files. It refers to no weights in memory.

    Another process may open it: it is picklable.
    """

    @abstractmethod
    def feed(self) -> Any:
        """Inputs of the network in the framework's memory, as earlier layers leave them."""

    @abstractmethod
    def parse(self) -> Any:
        """Reads the files with the framework's functions, as its users do.

        A framework that does not separate reading from preparing does both here.
        """

    @abstractmethod
    def prepare(self, parsed: Any, fed: Any) -> LoadedT:
        """Makes a network that was parsed ready to run, as a user's program does.

        Args:
            parsed: Result of :meth:`parse`.
            fed: Result of :meth:`feed`.
        """

    def open(self) -> LoadedT:
        """Reads the network, and makes it ready to run."""
        return self.prepare(self.parse(), self.feed())


@dataclass(frozen=True)
class SavedWeights(Saved[LoadedT]):
    """A network with a file for each weight: the default for any framework.

    Attributes:
        model: The network.
        inputs: Values of its inputs, by name.
        reads: Functions that read the weights, by name.
        load: Function that makes a network with its weights ready to run.
    """

    model: CanonicalModel
    inputs: Mapping[str, Array]
    reads: Mapping[str, Callable[[], Array]]
    load: Callable[[Network], LoadedT]

    @classmethod
    def of(
        cls, network: Network, folder: Path, load: Callable[[Network], LoadedT]
    ) -> SavedWeights[LoadedT]:
        """Writes the bytes of each weight."""
        reads = {
            name: _written(array, folder / f"{number}.bin")
            for number, (name, array) in enumerate(sorted(network.weights.items()))
        }
        return cls(network.model, network.inputs, reads, load)

    def feed(self) -> Mapping[str, Array]:
        """The inputs: ``load`` places them."""
        return self.inputs

    def parse(self) -> Mapping[str, Array]:
        """The weights, by name."""
        return {name: read() for name, read in self.reads.items()}

    def prepare(self, parsed: Mapping[str, Array], fed: Mapping[str, Array]) -> LoadedT:
        """Makes the parsed network ready to run, like ``load``."""
        return self.load(Network(self.model, parsed, fed))


def _written(array: Array, path: Path) -> Callable[[], Array]:
    """Writes an array's bytes; returns a function that reads it. Texts stay in memory."""
    if array.dtype.hasobject:
        return partial(np.asarray, array)
    array.tofile(path)
    return partial(_read, path, array.dtype, array.shape)


def _read(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    return np.fromfile(path, dtype).reshape(shape)


# Further processes of a worker: one writes networks to files, another opens them.


class AuxiliaryProcess:
    """A process of a backend beside this one, its allocator in its default state.

    Memory that a process has freed changes where its allocator places arrays: glibc raises its
    threshold for separately mapped blocks to the size of each freed block. A user's process opens
    files that another process wrote, and has opened no file before.

    Args:
        backend: ``"module:Class"`` of the backend.
        settings: Threads and options.
        warm: Whether small networks run before the first call.
    """

    def __init__(self, backend: str, settings: BackendSettings, *, warm: bool = False) -> None:
        self._start = backend, settings, None, None, 0, warm, False
        self._process: WorkerProcess | None = None

    def save(self, model: CanonicalModel, seed: int, folder: Path) -> Saved[Any]:
        """Draws values for a network, and writes it with :meth:`CpuTimer.save`.

        Args:
            model: Network in canonical form.
            seed: Seed of weights and inputs.
            folder: An empty folder.
        """
        found: Saved[Any] = self._call("save", model, seed, folder)
        return found

    def apply(self, function: str, *arguments: Any) -> Any:
        """Calls a function with the timer of the other process.

        Args:
            function: ``"module:function"``; it takes the timer first.
            *arguments: Further arguments, which must be picklable.
        """
        return self._call("apply", function, *arguments)

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._process is None:
            self._process = WorkerProcess("dlbricks_core.backends.host:TimerHost")
            self._process.call("start", *self._start)
        return self._process.call(method, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
