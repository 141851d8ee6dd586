"""What a backend plugin implements: a :class:`Backend` and its :class:`CpuTimer`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array, Model, Network

LoadedT = TypeVar("LoadedT")


@dataclass(frozen=True)
class BackendOption:
    """One ``--backend-option`` that a backend understands.

    Attributes:
        default: Value used when the user says nothing.
        choices: All allowed values, the default among them.
        help: One line for the user.
    """

    default: str
    choices: Sequence[str]
    help: str


@dataclass(frozen=True)
class BackendSettings:
    """How a backend is to run; part of the identity of every measurement.

    Attributes:
        threads: Number of threads that compute one operator.
        options: A value for every option that the backend declares.
    """

    threads: int = 1
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProfiledLayer:
    """A layer that the framework executed, and its share of a run.

    Attributes:
        name: As the framework calls it, only for people to read.
        operator: Its type.
        outputs: Names of the tensors that it computes: first those of
            :meth:`Backend.executed`, then those of the model, where both know it.
        ms: Median over the profiled runs, in milliseconds.
    """

    name: str
    operator: str
    outputs: tuple[str, ...]
    ms: float


@dataclass(frozen=True)
class Profile:
    """Where the time of a whole model goes, as its framework sees it.

    Attributes:
        layers: In the order in which they ran.
        run_ms: Median latency of a profiled run, in milliseconds. Profiling itself takes
            time: a run that nobody looks into is faster.
    """

    layers: Sequence[ProfiledLayer]
    run_ms: float

    @property
    def sum_ms(self) -> float:
        """What all layers took, in milliseconds."""
        return sum(layer.ms for layer in self.layers)


class CpuTimer(ABC, Generic[LoadedT]):
    """The timer interface that all backends share; one instance a worker process.

    The engine times ``run`` followed by ``synchronize``, and nothing else. Everything
    that a user of the framework would do once belongs into ``load``: building the
    graph, placing the weights, binding inputs and outputs.
    """

    @abstractmethod
    def load(self, network: Network) -> LoadedT:
        """Prepares a network so that ``run`` does nothing but inference.

        Raises:
            UnsupportedError: If the framework has no counterpart for a layer.
        """

    def load_native(self, network: Network) -> LoadedT:
        """Loads a model as its own framework runs it, not as the IR lowers it.

        Only called for models that the backend calls :meth:`Backend.native`.

        Args:
            network: With the producer's tensor names; ``network.model.source`` tells
                where the original is.
        """
        raise UnsupportedError(f"{network.model.source} has no native form here")

    def load_copy(self, network: Network, loaded: LoadedT, *, near: int) -> LoadedT:
        """Loads a network with other weights, to run right before each timed run of another.

        Only called where :attr:`Backend.primed` says so. The copy may read the inputs of the
        other instead of its own: its runs then leave them in the caches.

        Args:
            network: Like the other one but for the values of weights and inputs.
            loaded: The other one.
            near: Of a brick, bytes of the cores' own caches, in which it is to find nothing that
                only its own runs leave there: in a model, other layers ran before. 0 for a model.
        """
        return self.load(network)

    @abstractmethod
    def run(self, loaded: LoadedT) -> None:
        """Starts one inference; may return before the results are there."""

    @abstractmethod
    def synchronize(self, loaded: LoadedT) -> None:
        """Returns once the results of the last ``run`` are in memory."""

    @abstractmethod
    def touch(self, loaded: LoadedT) -> None:
        """Leaves the caches as the layer before would have left them.

        First the memory that results will go to, which in a model held something else a
        moment ago, then the inputs.
        """

    def release(self, loaded: LoadedT) -> None:
        """Drops the results of the last ``run``, as a model does when nobody needs them.

        Called between timed runs; for frameworks that allocate results anew in every run.
        """

    @abstractmethod
    def outputs(self, loaded: LoadedT) -> Mapping[str, Array]:
        """Results of the last ``run`` by tensor name, as numpy arrays."""

    def profile(self, network: Network, runs: int) -> Profile:
        """Where the time of a whole model goes, layer by layer.

        The network is loaded as ``load`` does, but so that it can be looked into, and
        unloaded again.

        Args:
            network: With the names of tensors that ``Backend.executed`` is given.
            runs: How many count; a few more warm it up.

        Raises:
            UnsupportedError: If the framework does not tell.
        """
        raise UnsupportedError("its framework has no profile of single layers")

    @abstractmethod
    def unload(self, loaded: LoadedT) -> None:
        """Frees the network's memory."""

    @abstractmethod
    def close(self) -> None:
        """Frees everything; the timer is not used again."""


class Backend(ABC):
    """A framework that bricks are re-exported to.

    The class must be importable without the framework: only ``timer``, ``check`` and
    ``version`` may import it.
    """

    #: Short name that the user types, equal to the entry point's name.
    name: str
    #: Distribution that carries the framework, for ``pip install`` hints.
    distribution: str
    #: What ``--backend-option key=value`` may set.
    options: Mapping[str, BackendOption] = {}
    #: Models that a run without a MODEL argument takes, as the user would name them.
    default_models: Sequence[str] = ()

    @abstractmethod
    def version(self) -> str:
        """Version of the framework, without importing it where possible.

        Raises:
            PluginError: If the framework is not installed.
        """

    @abstractmethod
    def environment(self, settings: BackendSettings) -> Mapping[str, str]:
        """Environment variables that must be set before the framework is imported."""

    @abstractmethod
    def timer(self, settings: BackendSettings) -> CpuTimer[Any]:
        """Imports the framework, sets its threads, and returns a timer."""

    def native(self, source: str) -> bool:
        """Whether a model from this source is one of the framework's own.

        Its latency is then measured in its original form too, to show what exporting and
        lowering it changed.
        """
        return False

    #: Whether a network is timed right after a copy of it with other weights. In the middle
    #: of a model, code and memory are warm from the layers before; where a framework keeps
    #: both by network, only the network itself brings that about. Weights stay cold.
    primed: bool = False

    #: Whether a worker goes from network to network without a pause. Between two networks it
    #: otherwise waits until a sample is committed, and what computes meanwhile cools the
    #: caches. Which of the two is nearer to the middle of a model depends on what the framework
    #: keeps there: measure it (``dlbricks evaluate``).
    in_turns: bool = False

    #: How often the framework holds a network's weights: as they are given, and where it
    #: reorders them for its kernels, again. Tells how many networks fit into memory together.
    weights_held: int = 2

    #: Whether the framework executes another graph than it is given.
    rewrites: bool = False

    #: Whether finding that out takes all threads: processes that do it at once would wait for
    #: each other.
    asked_alone: bool = False

    def executed(self, model: Model, settings: BackendSettings, seed: int) -> Model:
        """What the framework makes of a whole model before it runs it.

        Only called in a worker, and where ``rewrites`` says so. Bricks cut from the result
        carry ``executed``: the timer has to run them just as they stand.

        Args:
            model: In canonical form, without opaque layers.
            settings: Threads and options.
            seed: Of the weights, where values are needed.

        Raises:
            UnsupportedError: If the framework cannot run the model.
        """
        return model

    @abstractmethod
    def check(self, model: Model) -> Mapping[int, str]:
        """Layers that the framework has no counterpart for: index in the model, reason."""
