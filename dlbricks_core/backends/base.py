"""Interface of backend plugins: a :class:`Backend` that describes, a :class:`CpuTimer` that runs.

A plugin has to define seven methods: ``version``, ``timer`` and ``check`` of its backend;
``load``, ``run``, ``warm_io`` and ``outputs`` of its timer. Everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from dlbricks_core.backends.auxiliary import AuxiliaryProcess
from dlbricks_core.backends.interpreted import Interpreted
from dlbricks_core.backends.profiles import Opened, Profile, Timeline
from dlbricks_core.backends.saved import Saved, SavedWeights
from dlbricks_core.backends.watch import Watch
from dlbricks_core.errors import BackendError, PluginError, UnsupportedError, first_line
from dlbricks_core.ir import Array, CanonicalModel, Network

LoadedT = TypeVar("LoadedT")


WARMUP_RUNS = 3
"""Most runs that come before those that count, of a network that was just loaded."""

LONG_MS = 30.0
"""Latency in milliseconds from which a single run warms a network up before a profile."""


def warmed_up(run: Callable[[], float]) -> None:
    """Runs a network that was just loaded, before it is profiled.

    Args:
        run: Function that runs it once and returns the latency in milliseconds.
    """
    for _ in range(WARMUP_RUNS):
        if run() >= LONG_MS:
            return


@dataclass(frozen=True)
class BackendOption:
    """A setting that a backend declares.

    Attributes:
        default: Value that applies when the user gives none.
        choices: All allowed values, the default among them.
        help: One line for the user.
    """

    default: str
    choices: Sequence[str]
    help: str


@dataclass(frozen=True)
class BackendSettings:
    """Settings of one backend; part of the identity of every measurement.

    Attributes:
        threads: Number of threads that compute one operator.
        options: Value of every option that the backend declares, by name.
        as_used: Whether the process is like a user's: nothing in it is shared among networks, and
            the framework has its own defaults.
    """

    threads: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    as_used: bool = False


@dataclass(frozen=True)
class Traits:
    """Peculiarities of a framework that decide how its networks are timed.

    The defaults suit a framework that keeps nothing between runs. Where estimates are off,
    ``dlbricks check`` shows whether another value of a trait brings them nearer.

    Attributes:
        primed: Whether a copy of the network, with other weights, runs right before each timed
            run. In the middle of a model, the layers before have left code and memory warm.
            Where a framework keeps both for each network separately, only a run of the same
            layers warms them. The network's own weights stay cold.
        in_turns: Whether the worker goes from one network to the next without a pause.
            Otherwise it waits until each sample is stored, and whatever computes during the
            pause cools the caches. Which of the two is nearer to the middle of a model depends
            on what the framework keeps in the caches.
        weights_held: Number of copies of a network's weights that the framework keeps in
            memory: the given ones, and a second copy if it reorders them for its kernels.
            It limits how many networks are loaded at the same time, and says whether a model
            fits, and whether layers that read the same weights share what is kept of them.
            The quantity ``peak-memory`` shows it: ``kept-memory`` of a large layer over the
            bytes of its weights.
        weights_loading: Number of copies of a model's weights that are there at a time, at most,
            while the framework loads it from a file. The quantity ``peak-memory`` shows it:
            ``loading-memory`` of a large layer over the bytes of its weights.
        results_apart: Whether results of a graph have memory of their own, although feature maps
            that nobody reads any more would have room for them. A layer in the middle of a model
            uses that room. A graph of a layer and an activation shows it: with a small layer
            behind these it takes less memory.
        rewrites: Whether the framework executes another graph than the given one; see
            :meth:`Backend.rewrite`.
        folds_weights: Whether layers that read only weights run once, while a network is loaded,
            and not in each run. Graphs are optimized so; programs that run line by line are not.
        rewrite_uses_all_threads: Whether rewriting one model keeps all threads busy. Several
            models are otherwise rewritten at the same time, one on each core.
        domains: Domains of operators beside ONNX's whose layers the framework runs as they are.
            Other frameworks run the definitions of such operators, or refuse them. ``None`` if
            nobody knows, as where the framework is not installed.
        engine: Program for language models whose figures its estimates are, and what of it they
            lack, to follow "Figures are those of". Without it they are the framework's, on the
            graph of DLBricks.
        blocks_only: Whether the framework runs nothing but what :meth:`Backend.rewrite` makes of
            the configuration that a language model was built from. Models are then rewritten as a
            whole, which needs no weights, and estimated from bricks that are timed alone.
    """

    primed: bool = False
    in_turns: bool = False
    weights_held: int = 2
    weights_loading: int = 2
    results_apart: bool = False
    rewrites: bool = False
    folds_weights: bool = True
    rewrite_uses_all_threads: bool = False
    domains: frozenset[str] | None = frozenset()
    engine: str = ""
    blocks_only: bool = False


class CpuTimer(ABC, Generic[LoadedT]):
    """Timer of one framework; every worker process has one.

    The engine times ``run`` followed by ``synchronize``, and nothing else. Whatever a user
    of the framework does once belongs in ``load``: building the graph, placing the weights,
    binding inputs and outputs.
    """

    #: Python statement by which a user's program imports the framework; whoever makes the timer
    #: tells, from :attr:`Backend.importing`.
    importing: str = ""
    #: Peculiarities of the framework; whoever makes the timer tells, from :attr:`Backend.traits`.
    traits: Traits = Traits()
    #: Makes a further process of the backend; whoever makes the timer tells.
    elsewhere: Callable[..., AuxiliaryProcess]
    #: The timer of this process, which stands for one that comes from another process.
    present: ClassVar[CpuTimer[Any] | None] = None

    def __reduce__(self) -> tuple[Callable[[], CpuTimer[Any]], tuple[()]]:
        return _present_timer, ()

    @abstractmethod
    def load(self, network: Network) -> LoadedT:
        """Prepares a network so that ``run`` does nothing but inference.

        Args:
            network: Model in canonical form with its weights and inputs. The arrays belong to
                the caller and must stay as they are.

        Returns:
            Anything; the other methods receive it.

        Raises:
            UnsupportedError: If the framework has no counterpart for a layer.
        """

    def save(self, network: Network, folder: Path) -> Saved[LoadedT]:
        """Writes a network as the framework's users keep their models: graph and weights.

        Cold starts and memory are observed with it: a user's process has a model's weights from a
        file, not from the arrays of ``load``, and never holds those.

        The default writes the bytes of each weight, and gives ``load`` what it reads.

        Where memory is observed, another process writes the files. The result must therefore be
        picklable. It may refer to the timer, which will be that of the process that opens it.

        Args:
            network: Network in canonical form.
            folder: An empty folder for whatever files there are. It stays while the network is
                opened.

        Raises:
            UnsupportedError: If the framework has no counterpart for a layer.
        """
        return SavedWeights.of(network, folder, self.load)

    def load_native(self, network: Network) -> LoadedT:
        """Prepares a model as its own framework runs it, without the IR in between.

        Only called for models whose source :meth:`Backend.native` accepts.

        Args:
            network: Network with the tensor names of the original; ``network.model.source``
                says where the original is.
        """
        raise UnsupportedError(f"{network.model.source} has no native form here")

    def open(
        self, model: CanonicalModel, inputs: Mapping[str, Array], profiled_runs: int
    ) -> Opened:
        """Opens a model as its user does: the user's own file, module and weights.

        Only called for models whose source :meth:`Backend.opens` accepts, in a process with the
        settings of users (:meth:`Backend.as_used`). Nothing of DLBricks may change the speed.

        Args:
            model: The imported model; ``model.source`` names the file or the factory.
            inputs: Value of each input by name.
            profiled_runs: Runs under the framework's profiler, after a first one that does not
                count; 0 for no profile. They serve as a warm-up.

        Raises:
            UnsupportedError: If the framework cannot run the source itself.
        """
        raise UnsupportedError(f"{model.source} cannot be opened here as its user opens it")

    def load_copy(self, network: Network, loaded: LoadedT, *, private_cache_bytes: int) -> LoadedT:
        """Prepares a copy that runs right before each timed run of another network.

        Only called if :attr:`Traits.primed` is set. The copy needs memory of its own for its
        weights; their values may be the other network's. It may read the other network's inputs
        instead of its own, so that its runs leave them in the caches, but for those that
        :func:`~dlbricks_core.bricks.cold_tensors` names.

        Args:
            network: Network with the same layers, but other values of weights and inputs.
            loaded: The other network, as ``load`` returned it.
            private_cache_bytes: Size of the cores' private caches, in bytes, if the network is
                a brick, and 0 if it is a whole model, or the size is unknown. In a model, other
                layers ran before a brick. So these caches should hold nothing that only the
                brick's own runs leave there.
        """
        return self.load(network)

    @abstractmethod
    def run(self, loaded: LoadedT) -> None:
        """Starts one inference; may return before its results are in memory."""

    def synchronize(self, loaded: LoadedT) -> None:
        """Returns once the results of the last ``run`` are in memory.

        The default returns at once, which is right if ``run`` computes everything.
        """

    @abstractmethod
    def warm_io(self, loaded: LoadedT) -> None:
        """Leaves inputs and outputs in the caches as a model's previous layer would.

        First warms the memory that the results will take, which held other tensors a moment
        ago, then the inputs. No value may change. Tensors that
        :func:`~dlbricks_core.bricks.cold_tensors` names stay untouched.
        """

    def release(self, loaded: LoadedT) -> None:
        """Drops the results of the last ``run``, as a model drops them after their last use.

        Called between timed runs. Only needed if the framework allocates its results anew in
        every run; the default does nothing.
        """

    def forget(self, loaded: LoadedT) -> None:
        """Drops the results of the last ``run``, as a program does that has no more use for them.

        Called after runs whose memory is observed. The default is :meth:`release`. It differs where
        timed runs keep their results, so that the memory for them stays warm.
        """
        self.release(loaded)

    @abstractmethod
    def outputs(self, loaded: LoadedT) -> Mapping[str, Array]:
        """Copies of the results of the last ``run``, by tensor name in the model's order."""

    def profile(self, network: Network, runs: int) -> Profile:
        """Time that each layer of a whole model takes.

        The network is loaded as ``load`` does it, but with the framework's profiler, and
        unloaded again.

        Args:
            network: The network with the tensor names that :meth:`Backend.rewrite` receives.
            runs: Number of runs that count; :func:`warmed_up` comes before them.

        Raises:
            UnsupportedError: If the framework cannot tell.
        """
        raise UnsupportedError("its framework has no profile of single layers")

    def timeline(self, network: Network) -> Timeline:
        """Activity of each thread in one run of a whole model, after ``WARMUP_RUNS`` others.

        Args:
            network: The network with the tensor names that :meth:`Backend.rewrite` receives.

        Raises:
            UnsupportedError: If the framework cannot tell.
        """
        raise UnsupportedError("its framework has no timeline of a run")

    def unload(self, loaded: LoadedT) -> None:
        """Frees the network's memory.

        The default does nothing: the caller drops its reference, which is enough if nothing
        else refers to the network.
        """

    def close(self) -> None:
        """Frees what the timer itself holds; called once, at the end. The default does nothing."""


def _present_timer() -> CpuTimer[Any]:
    if CpuTimer.present is None:
        raise BackendError("a network that was saved is opened where there is no timer")
    return CpuTimer.present


class Backend(ABC):
    """Description of a framework that runs bricks.

    The class must be importable without the framework: only ``timer``, ``check``, ``rewrite``
    and ``version`` may import it.
    """

    #: Short name that users type, equal to the entry point's name.
    name: str
    #: Distribution that carries the framework, for ``pip install`` hints.
    distribution: str
    #: Python statement by which a user's program imports the framework.
    importing: str = ""
    #: Settings that users may choose, by name. One of the name ``dtype`` has the element types that
    #: the framework itself converts weights to.
    options: Mapping[str, BackendOption] = {}
    #: Models of a run without a MODEL argument, as users name them.
    default_models: Sequence[str] = ()
    #: Peculiarities of the framework.
    traits: Traits = Traits()

    @abstractmethod
    def version(self) -> str:
        """Version of the framework, without importing it where possible.

        Raises:
            PluginError: If the framework is not installed.
        """

    def installed_version(self, hint: str = "") -> str:
        """Version of :attr:`distribution`, from its metadata; most ``version`` methods return it.

        Args:
            hint: Command that installs it; by default ``pip install`` with its name.

        Raises:
            PluginError: If the distribution is not installed.
        """
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError as error:
            raise PluginError(
                f"the backend {self.name} needs {self.distribution}, which is not installed",
                hint=hint or f"pip install {self.distribution}",
            ) from error

    def check_options(self, settings: BackendSettings) -> None:
        """Compares the settings' options with those that the backend declares.

        Raises:
            BackendError: If there is another option or value among them.
        """
        for key, value in settings.options.items():
            option = self.options.get(key)
            if option is None or value not in option.choices:
                known = "; ".join(f"{k}={'|'.join(o.choices)}" for k, o in self.options.items())
                raise BackendError(
                    f"{self.name} has no option {key}={value}",
                    hint=f"Use {known}." if known else "It has none.",
                )

    def environment(self, settings: BackendSettings) -> Mapping[str, str]:
        """Environment variables that must be set before the framework is imported.

        None by default.
        """
        return {}

    def as_used(self, settings: BackendSettings) -> BackendSettings:
        """Settings with which memory is observed: those of users, where others time better.

        The default returns the same settings.
        """
        return settings

    @abstractmethod
    def timer(self, settings: BackendSettings) -> CpuTimer[Any]:
        """Imports the framework, sets its number of threads, and returns a timer."""

    def native(self, source: str) -> bool:
        """Whether a model from this source is one of the framework's own; False by default.

        The latency of such a model is also measured in its original form
        (:meth:`CpuTimer.load_native`). The difference is what exporting and lowering changed.
        """
        return False

    def opens(self, source: str) -> bool:
        """Whether the framework runs this source itself (:meth:`CpuTimer.open`).

        False by default. Such a model is measured as its user runs it, with the user's weights.
        Others are measured as the IR lowers them, with drawn weights.
        """
        return False

    def watch(self, target: object) -> AbstractContextManager[Watch] | None:
        """A context in which runs of a user's own model are timed.

        Args:
            target: Any object of the user's program.

        Returns:
            The context; ``None`` if the target is no model of this framework, as by default.
        """
        return None

    def rewrite(
        self, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """Graph that the framework executes in place of a whole model.

        Only called in a worker, and if :attr:`Traits.rewrites` is set. A graph whose layers are
        the framework's own is made with :func:`dlbricks_core.bricks.native`. The bricks cut from
        it carry that annotation, and the timer runs them just as they stand.

        A tensor of the graph that holds one of the model's has its name, or
        :func:`dlbricks_core.bricks.in_layout` of it in another layout. ``compare`` sees by these
        names where frameworks cut a model at the same place.

        Args:
            model: Model in canonical form, without opaque layers.
            settings: Threads and options.
            seed: Seed of the weights, where their values are needed.

        Raises:
            UnsupportedError: If the framework cannot run the model.
        """
        return model

    def smallest(self, layers: int) -> CanonicalModel | None:
        """A chain of the framework's smallest layers, whose latency shows the cost of a call.

        ``None``, the default, for a chain of ONNX layers on one number.
        """
        return None

    def engine(self, settings: BackendSettings) -> str:
        """Program whose speed the figures of a language model are: that of the traits by default.

        Args:
            settings: How models run.
        """
        return self.traits.engine or f"{self.name} on the graph of DLBricks"

    def interpreted(self, model: CanonicalModel, settings: BackendSettings) -> Interpreted | None:
        """Python that the program of :meth:`engine` runs beside a language model's operators.

        ``None``, the default, where it runs none or nobody has measured it.
        """
        return None

    def advice(self) -> Sequence[str]:
        """Features of this machine that another build of the framework would use; none by default.

        Each is a finding, a colon and what to do, for ``dlbricks machine check``. Nothing is
        imported here.

        Raises:
            PluginError: If the framework is not installed.
        """
        return ()

    def reason(self, error: Exception) -> str:
        """Message of an exception that a worker raised, in one line for users.

        The default is its type and the first line of its message. A framework whose messages
        begin with something else, such as a stack of its own, overrides it.

        Args:
            error: Whatever the timer, :meth:`check` or :meth:`rewrite` raised, except errors of
                DLBricks, which are told as they are.
        """
        return first_line(error)

    @abstractmethod
    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that the framework has no exact counterpart for.

        Args:
            model: Model in canonical form; the values of its weights are not there.

        Returns:
            Reason for each such layer, by the layer's index in the model.
        """


def declared_options(backend: Backend) -> dict[str, BackendOption]:
    """Options that a backend declares, copied so that a wrong declaration raises here."""
    return {
        name: BackendOption(option.default, tuple(option.choices), option.help)
        for name, option in backend.options.items()
    }
