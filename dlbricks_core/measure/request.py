"""Requests: a quantity on one backend, and the precision to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from dlbricks_core.backends import Backend, BackendOption, BackendSettings
from dlbricks_core.backends.base import declared_options
from dlbricks_core.backends.burst import MOST_OF_BURST, Burst
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError, PluginError
from dlbricks_core.facts import (
    LATENCY,
    CalibrationKey,
    Kind,
    Quantity,
    Question,
    Setup,
    Subject,
    System,
    canonical_json,
)
from dlbricks_core.figures.precision import BUDGET_S, FEWEST, MOST, PRECISION
from dlbricks_core.figures.protocols import (
    HOT,
    PROTOCOLS,
    TIMEOUT_S,
    Condition,
    Protocol,
    protocol_named,
)
from dlbricks_core.machine.system import current_system, physical_cores_available
from dlbricks_core.measure.known_setups import AbsentBackend, KnownSetup, nearest_setup
from dlbricks_core.measure.metric import Metric, find_metric
from dlbricks_core.plugins import Plugin, find, use
from dlbricks_core.preferences import BUSY, Busy, preferred
from dlbricks_core.wording import argument, count


@dataclass(frozen=True)
class Request:
    """A request to one backend on one system: how networks run, and to what precision.

    Attributes:
        plugin: The backend's plugin.
        backend: The backend.
        setup: How networks run, the same for all figures of the request.
        settings: Threads and options in the form of the backend; the setup has them as text.
        protocol: How networks are timed.
        condition: Condition of the latencies. In the hot condition, whole models run by the
            protocol :data:`~dlbricks_core.figures.protocols.HOT`, and ``protocol`` is for bricks
            alone.
        runs: Minimum number of samples in a complete measurement.
        system: System that this process runs on.
        elsewhere: System of the measurements, if it is another system; otherwise ``None``.
        installed: Setup with the versions installed here, if other versions were measured on the
            requested system; ``None`` if ``setup`` has the installed versions.
        precision: Half-width of the 90% intervals to reach, relative to the figure; ``None`` where
            the number of runs is fixed.
        budget_s: Seconds after which measuring ends, precise or not; ``None`` where the number of
            runs is fixed.
        enough_s: Total seconds of a network's runs after which few runs suffice; ``None`` where
            only their number counts.
        seed: Seed of weights and inputs.
        timeout_s: Maximum seconds to load a network, or to run it once.
        force: Whether to repeat stored measurements.
        retry_failed: Whether to repeat failed measurements.
        metric: Metric of the requested quantity; ``None`` for latency.
        machine: Name of the machine of an estimate, from
            :attr:`~dlbricks_core.facts.Machine.told_apart`; empty if none was chosen.
        busy: Behaviour if other programs use the CPUs.
    """

    plugin: Plugin
    backend: Backend
    setup: Setup
    settings: BackendSettings
    protocol: Protocol
    runs: int
    system: System
    elsewhere: System | None = None
    installed: Setup | None = None
    precision: float | None = None
    budget_s: float | None = None
    enough_s: float | None = None
    seed: int = 0
    timeout_s: float = TIMEOUT_S
    force: bool = False
    retry_failed: bool = False
    metric: Metric | None = None
    machine: str = ""
    condition: Condition = "cold"
    busy: Busy = "wait"

    @classmethod
    def of(
        cls,
        backend: str,
        *,
        quantity: str = LATENCY.name,
        threads: int | None = None,
        protocol: str = next(iter(PROTOCOLS)),
        condition: Condition = "cold",
        runs: int | None = None,
        precision: float | None = None,
        budget_s: float | None = None,
        backend_options: Mapping[str, str] = MappingProxyType({}),
        seed: int = 0,
        timeout_s: float = TIMEOUT_S,
        force: bool = False,
        retry_failed: bool = False,
        system: System | None = None,
        known: Callable[[], Sequence[KnownSetup]] = tuple,
        measured: Setup | None = None,
        busy: Busy | None = None,
    ) -> Request:
        """A user's request, with defaults for all values that are not given.

        Args:
            backend: Name of the backend.
            quantity: Name of the requested quantity.
            threads: Threads that compute one operator; ``None`` for all physical cores that the
                process may use, or that were free on the other system.
            protocol: Name of the protocol.
            condition: Condition of the latencies.
            runs: Number of samples of each network; ``None`` for the protocol's default, or for as
                many as the precision needs.
            precision: Half-width of the 90% intervals to reach, relative to the figure; ``None``
                for 1%, where the number of runs is open.
            budget_s: Seconds after which measuring ends, precise or not; ``None`` for 120 where
                bricks are timed alone and the number of runs is open, otherwise for any time.
            backend_options: Values for options that the backend declares.
            seed: Seed of weights and inputs.
            timeout_s: Maximum seconds to load a network, or to run it once.
            force: Whether to repeat stored measurements.
            retry_failed: Whether to repeat failed measurements.
            system: System of the figures; ``None`` for the system of this process. The request has
                the measured versions nearest to the installed versions.
            known: Function that returns setups of the backend with known figures. If the backend is
                not installed, one of these setups is used, and the request cannot measure.
            busy: Behaviour if other programs use the CPUs; ``None`` for the user's preference, or
                else to wait.
            measured: Setup of measurements from another machine to which the request is limited.
                The backend need not be installed, and its installed version has no effect.

        Raises:
            DLBricksError: If an argument is out of range, contradicts another, or is an option
                that the backend does not have.
            PluginError: If the backend is unknown, broken, or lacks its framework.
        """
        metric = _metric(quantity)
        how = _protocol(protocol, metric)
        busy = busy or preferred("busy") or BUSY[0]
        if busy not in BUSY:
            raise DLBricksError(
                f"{argument('busy')} cannot be {busy!r:.40}", hint=f"Choose from {', '.join(BUSY)}."
            )
        _check(how, threads, runs, precision, budget_s)
        here = current_system()
        target = system or here
        if measured is not None:
            threads = measured.threads
        elif threads is None:
            threads = usual_threads(system)
        try:
            if measured is not None:
                plugin = Plugin("backend", backend, "", "", "")
                found, version, code_version = _stand_in([measured])
            else:
                plugin = find("backend", backend, Backend)
                found = use(plugin, plugin.loaded)
                version, code_version = use(plugin, found.version), plugin.code_version
        except PluginError as error:
            setups = _by_nearness(known(), target, threads)
            if not setups:
                raise
            found, version, code_version = _stand_in(setups)
            plugin = Plugin("backend", backend, "", "", "", problem=error.message, cure=error.hint)
        declared = use(plugin, partial(declared_options, found))
        settings = BackendSettings(threads, _chosen(found.name, declared, backend_options))
        fixed = how.runs if runs is None else runs
        is_open = fixed is None
        installed = Setup(
            backend=found.name,
            version=version,
            options=canonical_json(settings.options),
            threads=settings.threads,
            protocol=how.identity,
            plugin=code_version,
        )
        # Whole models run as often as in a script, however long that takes.
        usual_budget_s = BUDGET_S if condition == "cold" else None
        setup = installed
        if system is not None:
            there = [each for each, where in known() if where == system.fingerprint]
            setup = nearest_setup(installed, there)
        return cls(
            plugin=plugin,
            backend=found,
            setup=setup,
            installed=None if setup == installed else installed,
            settings=settings,
            protocol=how,
            runs=FEWEST if fixed is None else fixed,
            system=here,
            elsewhere=None if target.fingerprint == here.fingerprint else target,
            precision=(PRECISION if precision is None else precision) if is_open else None,
            budget_s=usual_budget_s if is_open and budget_s is None else budget_s,
            seed=seed,
            timeout_s=timeout_s,
            force=force,
            retry_failed=retry_failed,
            metric=metric,
            condition=condition,
            busy=busy,
        )

    @property
    def accepts_busy(self) -> bool:
        """Whether the user accepts figures that were measured beside other programs."""
        return self.busy == "accept"

    @property
    def runs_natives(self) -> Backend | None:
        """The backend, if models of its framework are also timed in their native form."""
        return self.backend if self.metric is None else None

    @property
    def quantity(self) -> Quantity:
        """The requested quantity."""
        return LATENCY if self.metric is None else self.metric.quantity

    @property
    def extent(self) -> str:
        """Number of runs and precision, in words for the user."""
        if self.precision is None:
            return count(self.runs, "run")
        most = MOST_OF_BURST if self.protocol is HOT else MOST
        text = f"{self.runs} to {most} runs, ±{self.precision * 100:.3g}%"
        return text if self.budget_s is None else f"{text} or {self.budget_s:g} s"

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the system of the measurements."""
        return self.target.fingerprint

    @property
    def target(self) -> System:
        """System of the measurements."""
        return self.elsewhere or self.system

    @property
    def hot(self) -> Request:
        """The request for whole models as their users run them, and for bricks inside of them."""
        setup = replace(self.setup, protocol=HOT.identity)
        runs = self.burst.fewest_samples
        return replace(self, protocol=HOT, setup=setup, runs=runs, condition="hot")

    @property
    def burst(self) -> Burst:
        """Extent of the runs of a whole model in the hot condition."""
        if self.precision is None:
            return Burst.of(self.runs)
        return Burst.within(self.precision)

    def on(self, system: System) -> Request:
        """A copy of the request for measurements from another system."""
        return replace(self, elsewhere=system)

    def key(self, signature: str, kind: Kind) -> Question:
        """Key of a network's measurement in the store.

        Args:
            signature: Signature of the brick or of the whole model.
            kind: Kind of the network.
        """
        return Question(Subject(signature, kind), self.quantity, self.setup, self.fingerprint)

    def parts(self, key: Question) -> tuple[Question, ...]:
        """Further keys for which each observation of a key has values."""
        parts = self.metric.parts if self.metric else ()
        return tuple(replace(key, quantity=part) for part in parts)

    def calibration_key(self, options: CutOptions) -> CalibrationKey:
        """Key of a composer's calibration to measurements of this request.

        Args:
            options: The composer, and how it cuts models.
        """
        how = options.composer, options.strategy, options.granularity
        return CalibrationKey(*how, self.quantity, self.setup, self.fingerprint)


def usual_threads(system: System | None = None) -> int:
    """Threads for one operator: the user's preference, or all physical cores of the system."""
    if system is not None:
        return max(1, system.available_cores)
    return preferred("threads") or physical_cores_available()


def _by_nearness(known: Sequence[KnownSetup], target: System, threads: int) -> list[Setup]:
    """Setups in order of nearness: those of the requested system first, equal threads first."""

    def far(each: KnownSetup) -> tuple[bool, bool]:
        setup, where = each
        return where != target.fingerprint, setup.threads != threads

    return [setup for setup, _ in sorted(known, key=far)]


def _stand_in(setups: Sequence[Setup]) -> tuple[Backend, str, str]:
    """A stand-in for a backend that is not installed, its version, and its plugin's version."""
    return AbsentBackend(setups), setups[0].version, setups[0].plugin


def protocol_of(name: str, quantity: str) -> Protocol:
    """The protocol for observing a quantity.

    Args:
        name: Name of the chosen protocol, or of the default.
        quantity: Name of the quantity.

    Raises:
        DLBricksError: If there is no such protocol, or it is not for the quantity.
        PluginError: If there is no such quantity, or its metric is broken.
    """
    return _protocol(name, _metric(quantity))


def _metric(quantity: str) -> Metric | None:
    return None if quantity == LATENCY.name else find_metric(quantity)


def _protocol(name: str, metric: Metric | None) -> Protocol:
    """The protocol of a name, or the metric's protocol.

    Raises:
        DLBricksError: If there is no such protocol, or it is not for the metric's quantity.
    """
    how = protocol_named(name)
    if metric is None:
        return how
    if name != next(iter(PROTOCOLS)):
        raise DLBricksError(
            f"the protocol {name!r} is not for {metric.name}",
            hint=f"Protocols are for {LATENCY.name}. Leave {argument('protocol')} out.",
        )
    return metric.protocol


def _check(
    protocol: Protocol,
    threads: int | None,
    runs: int | None,
    precision: float | None,
    budget_s: float | None,
) -> None:
    """Raises an error if arguments are out of range or contradict each other."""
    for name, number in (("threads", threads), ("runs", runs)):
        if number is not None and number < 1:
            raise DLBricksError(f"{argument(name)} {number} is too small", hint="Use 1 or more.")
    if precision is not None and not 0 < precision < 1:
        raise DLBricksError(
            f"{argument('precision')} {precision:g} is out of range",
            hint="Write a share above 0% and below 100%, such as 1% or 0.01.",
        )
    if budget_s is not None and not budget_s > 0:
        raise DLBricksError(
            f"{argument('budget_s')} {budget_s:g} is out of range",
            hint="Write a time, such as 60s.",
        )
    for name, setting in (("precision", precision), ("budget_s", budget_s)):
        if setting is not None and protocol.runs is not None:
            raise DLBricksError(
                f"{argument(name)} is not for the protocol {protocol.name!r}",
                hint=f"Its number of runs is fixed; {argument('runs')} sets it.",
            )
        if setting is not None and runs is not None:
            raise DLBricksError(
                f"{argument('runs')} and {argument(name)} contradict each other",
                hint=f"{argument(name)} decides how many runs there are. Leave one of them out.",
            )


def _chosen(
    backend: str, options: Mapping[str, BackendOption], wanted: Mapping[str, str]
) -> dict[str, str]:
    """Value of every option of a backend.

    Args:
        backend: Name of the backend, for errors.
        options: Options that the backend declares.
        wanted: The user's values.
    """
    if not isinstance(wanted, Mapping):
        raise DLBricksError(
            f"the options of backend {backend!r} are {wanted!r}",
            hint="Give a mapping of names to values.",
        )
    chosen = {name: option.default for name, option in options.items()}
    for name, value in wanted.items():
        if name not in options:
            known = ", ".join(options) or "none"
            raise DLBricksError(
                f"backend {backend!r} has no option {name!r}", hint=f"It has: {known}."
            )
        choices = options[name].choices
        if value not in choices:
            raise DLBricksError(
                f"option {name}={value}: no such value", hint=f"Choose from {', '.join(choices)}."
            )
        chosen[name] = value
    return chosen
