"""Interface of backend plugins: a :class:`Backend` that describes, a :class:`CpuTimer` that runs.

A plugin has to define seven methods: ``version``, ``timer`` and ``check`` of its backend;
``load``, ``run``, ``warm_io`` and ``outputs`` of its timer. Everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from dlbricks_core.backends.profiles import LONG_MS, Interpreted, Opened, Profile, Timeline, Watch
from dlbricks_core.backends.saved import AuxiliaryProcess, Saved, SavedWeights
from dlbricks_core.backends.traits import BackendOption, BackendSettings, Traits
from dlbricks_core.errors import BackendError, PluginError, UnsupportedError, first_line
from dlbricks_core.ir import Array, CanonicalModel, Network

LoadedT = TypeVar("LoadedT")


WARMUP_RUNS = 3
"""Maximum number of warm-up runs of a network after it was loaded."""


def warmed_up(run: Callable[[], float]) -> None:
    """Runs a network that was just loaded, before it is profiled.

    Args:
        run: Function that runs it once and returns the latency in milliseconds.
    """
    for _ in range(WARMUP_RUNS):
        if run() >= LONG_MS:
            return


class CpuTimer(ABC, Generic[LoadedT]):
    """Timer of one framework; every worker process has one.

    The engine times ``run`` followed by ``synchronize``, and nothing else. Steps that a user of the
    framework does once belong in ``load``: building the graph, placing the weights, binding inputs
    and outputs.
    """

    #: Python statement by which a user's program imports the framework; set from
    #: :attr:`Backend.importing` when the timer is made.
    importing: str = ""
    #: Peculiarities of the framework; set from :attr:`Backend.traits` when the timer is made.
    traits: Traits = Traits()
    #: Function that starts a further process of the backend; set when the timer is made.
    elsewhere: Callable[..., AuxiliaryProcess]
    #: Timer of this process. A timer that was pickled in another process is unpickled as this one.
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
            Any object; the other methods receive it.

        Raises:
            UnsupportedError: If the framework has no counterpart for a layer.
        """

    def save(self, network: Network, folder: Path) -> Saved[LoadedT]:
        """Writes a network as the framework's users keep their models: graph and weights.

        Cold starts and memory are observed with these files: a user's process reads a model's
        weights from a file, and never contains the arrays that ``load`` gets.

        The default writes the bytes of each weight, and calls ``load`` with weights read from these
        files.

        Where memory is observed, another process writes the files. The result must therefore be
        picklable. It may refer to the timer; after unpickling, that is the timer of the process
        that opens the files.

        Args:
            network: Network in canonical form.
            folder: An empty folder for the files. It exists until the network was opened.

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
        instead of its own, so that its runs leave them in the caches, except for the tensors in
        :func:`~dlbricks_core.bricks.cold_tensors`.

        Args:
            network: Network with the same layers, but other values of weights and inputs.
            loaded: The other network, as ``load`` returned it.
            private_cache_bytes: Size of the cores' private caches, in bytes, if the network is
                a brick, and 0 if it is a whole model, or the size is unknown. In a model, other
                layers run before a brick, so these caches should contain no data that only the
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

        First warms the memory of the results, which contained other tensors a moment before,
        then the inputs. No value may change. Tensors that
        :func:`~dlbricks_core.bricks.cold_tensors` names stay untouched.
        """

    def release(self, loaded: LoadedT) -> None:
        """Drops the results of the last ``run``, as a model drops them after their last use.

        Called between timed runs. Only needed if the framework allocates its results anew in
        every run; the default does nothing.
        """

    def forget(self, loaded: LoadedT) -> None:
        """Drops the results of the last ``run``, as a program does after their last use.

        Called after runs whose memory is observed. The default is :meth:`release`. Override it if
        timed runs keep their results, so that the memory of results stays warm.
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
            runs: Number of profiled runs, after the warm-up of :func:`warmed_up`.

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
        """Frees the timer's own resources; called once, at the end. The default does nothing."""


def _present_timer() -> CpuTimer[Any]:
    if CpuTimer.present is None:
        raise BackendError("a saved network can only be opened in a process with a timer")
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
    #: Settings that users may choose, by name. The setting ``dtype``, if any, lists the element
    #: types to which the framework itself converts weights.
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
            BackendError: If an option or a value is not declared.
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
        """Settings for observing memory: the settings of users, if the timed settings differ.

        The default returns the same settings.
        """
        return settings

    @abstractmethod
    def timer(self, settings: BackendSettings) -> CpuTimer[Any]:
        """Imports the framework, sets its number of threads, and returns a timer."""

    def native(self, source: str) -> bool:
        """Whether this source is a model in the framework's own format; False by default.

        The latency of such a model is also measured in its original form
        (:meth:`CpuTimer.load_native`). The difference shows the effect of exporting and lowering.
        """
        return False

    def opens(self, source: str) -> bool:
        """Whether the framework runs this source itself (:meth:`CpuTimer.open`).

        False by default. Such a model is measured as its user runs it, with the user's weights.
        Models from other sources are measured as lowered from the IR, with drawn weights.
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

        Only called in a worker, and if :attr:`Traits.rewrites` is set. A graph of the framework's
        own layers is made with :func:`dlbricks_core.bricks.native`. Bricks cut from this graph keep
        the annotation, and the timer runs them unchanged.

        A tensor of the graph with the values of a model's tensor has the name of that tensor, in
        another layout the name :func:`dlbricks_core.bricks.in_layout`. ``compare`` finds common
        cuts of frameworks by these names.

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

    def engine(self, settings: BackendSettings, model: CanonicalModel) -> str:
        """Program whose speed is estimated for a language model; by default from the traits.

        Args:
            settings: How models run.
            model: The model, at one of its sizes.
        """
        return self.traits.engine or f"{self.name} on the graph of DLBricks"

    def interpreted(self, model: CanonicalModel, settings: BackendSettings) -> Interpreted | None:
        """Python code that the program of :meth:`engine` runs beside a language model's operators.

        ``None``, the default, if the program runs no Python, or its time is not known.
        """
        return None

    def advice(self) -> Sequence[str]:
        """Features of this machine that another build of the framework would use; none by default.

        Each line is a finding, a colon and the remedy, for ``dlbricks machine check``. The method
        must not import the framework.

        Raises:
            PluginError: If the framework is not installed.
        """
        return ()

    def reason(self, error: Exception) -> str:
        """Message of an exception that a worker raised, in one line for users.

        The default is its type and the first line of its message. A framework whose messages
        begin with something else, such as a stack of its own, overrides it.

        Args:
            error: Exception from the timer, :meth:`check` or :meth:`rewrite`. Errors of DLBricks
                are not passed: they are reported unchanged.
        """
        return first_line(error)

    @abstractmethod
    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that the framework has no exact counterpart for.

        Args:
            model: Model in canonical form, without values of its weights.

        Returns:
            Reason for each such layer, by the index of the layer in the model.
        """


def declared_options(backend: Backend) -> dict[str, BackendOption]:
    """Options that a backend declares, copied so that a wrong declaration raises here."""
    return {
        name: BackendOption(option.default, tuple(option.choices), option.help)
        for name, option in backend.options.items()
    }
