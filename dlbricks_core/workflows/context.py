"""What identifies the measurements of a run: backend, system, threads, protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dlbricks_core.backends import Backend, BackendOption, BackendSettings
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import (
    CalibrationKey,
    Kind,
    Question,
    Setup,
    Subject,
    System,
    canonical_json,
)
from dlbricks_core.figures.precision import BUDGET_S, FEWEST, MOST, PRECISION
from dlbricks_core.figures.protocols import PROTOCOLS, Protocol, protocol_named
from dlbricks_core.machine.system import current_system, physical_cores_available
from dlbricks_core.plugins import Plugin, find, use
from dlbricks_core.workflows.status import declared_options


@dataclass(frozen=True)
class MeasureOptions:
    """How to measure, as the user says it.

    Attributes:
        backend: Name of the backend.
        threads: Threads that compute one operator; ``None`` for all physical cores
            that the process may use.
        protocol: Name of the protocol.
        runs: Samples a network; ``None`` for the protocol's own number, or for as many
            as the precision needs.
        precision: Half-width of the 90% intervals to reach, relative to the latency;
            ``None`` for 1%, where the number of runs is open.
        budget_s: Seconds after which measuring ends, precise or not; ``None`` for 120,
            where the number of runs is open.
        backend_options: Values for options that the backend declares.
        seed: Of weights and inputs.
        timeout_s: Longest time that a network may take to load or to run once.
        force: Whether to measure again what the store holds.
        retry_failed: Whether to try again what failed before.

    Raises:
        DLBricksError: If some of it is out of range, or contradicts another part.
    """

    backend: str
    threads: int | None = None
    protocol: str = next(iter(PROTOCOLS))
    runs: int | None = None
    backend_options: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    timeout_s: float = 120.0
    force: bool = False
    retry_failed: bool = False
    precision: float | None = None
    budget_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("threads", self.threads), ("runs", self.runs)):
            if value is not None and value < 1:
                raise DLBricksError(f"--{name} {value} is too small", hint="Use 1 or more.")
        if self.precision is not None and not 0 < self.precision < 1:
            raise DLBricksError(
                f"--precision {self.precision:g} is out of range",
                hint="Write a share of the latency, such as 1% or 0.01.",
            )
        if self.budget_s is not None and not self.budget_s > 0:
            raise DLBricksError(
                f"--budget {self.budget_s:g} is out of range", hint="Write a time, such as 60s."
            )
        open_ended = protocol_named(self.protocol).runs is None
        for name, setting in (("precision", self.precision), ("budget", self.budget_s)):
            if setting is not None and not open_ended:
                raise DLBricksError(
                    f"--{name} is not for the protocol {self.protocol!r}",
                    hint="Its number of runs is fixed; --runs sets it.",
                )
            if setting is not None and self.runs is not None:
                raise DLBricksError(
                    f"--runs and --{name} contradict each other",
                    hint=f"--{name} decides how many runs there are. Leave one of them out.",
                )


@dataclass(frozen=True)
class Context:
    """Everything but the signature that a measurement is identified by.

    Attributes:
        plugin: The backend's plugin.
        backend: The backend.
        version: Of its framework.
        settings: Threads and options of the backend.
        protocol: How networks are timed.
        runs: Samples that a complete measurement has at least.
        system: The one that this process runs on.
        elsewhere: Fingerprint of another system, if the measurements are from there.
        precision: To reach beyond those samples, as in :class:`MeasureOptions`; ``None``
            where the number of runs is fixed.
        budget_s: As in :class:`MeasureOptions`; ``None`` where the number of runs is fixed.
        enough_s: Seconds of a network's runs after which few of them are enough; ``None``
            where their number alone counts.
    """

    plugin: Plugin
    backend: Backend
    version: str
    settings: BackendSettings
    protocol: Protocol
    runs: int
    system: System
    elsewhere: str = ""
    precision: float | None = None
    budget_s: float | None = None
    enough_s: float | None = None

    @classmethod
    def of(cls, options: MeasureOptions) -> Context:
        """Resolves what the user said.

        Raises:
            PluginError: If the backend is unknown, broken, or lacks its framework.
            DLBricksError: If an option of the backend is none that it has.
        """
        plugin = find("backend", options.backend, Backend)
        backend: Backend = use(plugin, plugin.loaded)
        protocol = protocol_named(options.protocol)
        cores = physical_cores_available()
        threads = cores if options.threads is None else options.threads
        runs = protocol.runs if options.runs is None else options.runs
        precision = PRECISION if options.precision is None else options.precision
        budget_s = BUDGET_S if options.budget_s is None else options.budget_s
        return cls(
            plugin=plugin,
            backend=backend,
            version=use(plugin, backend.version),
            settings=BackendSettings(
                threads,
                _chosen(
                    backend.name,
                    use(plugin, partial(declared_options, backend)),
                    options.backend_options,
                ),
            ),
            protocol=protocol,
            runs=FEWEST if runs is None else runs,
            system=current_system(),
            precision=precision if runs is None else None,
            budget_s=budget_s if runs is None else None,
        )

    @property
    def extent(self) -> str:
        """How many runs there are, for people."""
        if self.precision is None:
            return f"{self.runs} run{'' if self.runs == 1 else 's'}"
        text = f"{self.runs} to {MOST} runs, ±{self.precision * 100:.3g}%"
        return text if self.budget_s is None else f"{text} or {self.budget_s:g} s"

    @property
    def fingerprint(self) -> str:
        """Of the system that measurements are for."""
        return self.elsewhere or self.system.fingerprint

    def on(self, fingerprint: str) -> Context:
        """The same, for measurements that were made on another system."""
        return replace(self, elsewhere=fingerprint)

    def key(self, signature: str, kind: Kind) -> Question:
        """Where a network's measurement is kept.

        Args:
            signature: Of the brick or the whole model.
            kind: Which of the two it is.
        """
        return Question(Subject(signature, kind), self.setup, self.fingerprint)

    def calibration_key(self, composer: str, strategy: str, granularity: int) -> CalibrationKey:
        """Where numbers are kept that were fitted to such measurements.

        Args:
            composer: Name of the composer.
            strategy: Name of the split strategy.
            granularity: The most layers that a brick may hold.
        """
        return CalibrationKey(composer, strategy, granularity, self.setup, self.fingerprint)

    @property
    def setup(self) -> Setup:
        """What all measurements have in common."""
        return Setup(
            backend=self.backend.name,
            version=self.version,
            options=canonical_json(self.settings.options),
            threads=self.settings.threads,
            protocol=self.protocol.identity,
        )


def _chosen(
    backend: str, options: Mapping[str, BackendOption], wanted: Mapping[str, str]
) -> dict[str, str]:
    """A value for every option.

    Args:
        backend: Its name, for errors.
        options: That it declares.
        wanted: What the user said.
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
