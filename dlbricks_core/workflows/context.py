"""What identifies the measurements of a run: backend, system, threads, protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dlbricks_core.backends import Backend, BackendSettings
from dlbricks_core.errors import DLBricksError
from dlbricks_core.measure.protocols import PROTOCOLS, Protocol, protocol_named
from dlbricks_core.measure.system import System, current_system, physical_cores_available
from dlbricks_core.plugins import Plugin, find, use
from dlbricks_core.store import Kind, MeasurementKey, canonical_json


@dataclass(frozen=True)
class MeasureOptions:
    """How to measure, as the user says it.

    Attributes:
        backend: Name of the backend.
        threads: Threads that compute one operator; ``None`` for all physical cores
            that the process may use.
        protocol: Name of the protocol.
        runs: Samples a network; ``None`` for the protocol's own number.
        backend_options: Values for options that the backend declares.
        seed: Of weights and inputs.
        timeout_s: Longest time that a network may take to load or to run once.
        force: Whether to measure again what the store holds.
    """

    backend: str
    threads: int | None = None
    protocol: str = next(iter(PROTOCOLS))
    runs: int | None = None
    backend_options: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    timeout_s: float = 120.0
    force: bool = False


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
    """

    plugin: Plugin
    backend: Backend
    version: str
    settings: BackendSettings
    protocol: Protocol
    runs: int
    system: System
    elsewhere: str = ""

    @classmethod
    def of(cls, options: MeasureOptions) -> Context:
        """Resolves what the user said.

        Raises:
            PluginError: If the backend is unknown, broken, or lacks its framework.
            DLBricksError: If another option is out of range.
        """
        plugin = find("backend", options.backend, Backend)
        backend: Backend = use(plugin, plugin.loaded)
        protocol = protocol_named(options.protocol)
        cores = physical_cores_available()
        threads = cores if options.threads is None else options.threads
        runs = protocol.runs if options.runs is None else options.runs
        for name, value in (("threads", threads), ("runs", runs)):
            if value < 1:
                raise DLBricksError(f"--{name} {value} is too small", hint="Use 1 or more.")
        return cls(
            plugin=plugin,
            backend=backend,
            version=use(plugin, backend.version),
            settings=BackendSettings(
                threads, use(plugin, partial(_chosen, backend, options.backend_options))
            ),
            protocol=protocol,
            runs=runs,
            system=current_system(),
        )

    @property
    def fingerprint(self) -> str:
        """Of the system that measurements are for."""
        return self.elsewhere or self.system.fingerprint

    def on(self, fingerprint: str) -> Context:
        """The same, for measurements that were made on another system."""
        return replace(self, elsewhere=fingerprint)

    def key(self, signature: str, kind: Kind) -> MeasurementKey:
        """Where a network's measurement is kept.

        Args:
            signature: Of the brick or the whole model.
            kind: Which of the two it is.
        """
        return MeasurementKey(
            signature=signature,
            kind=kind,
            backend=self.backend.name,
            backend_version=self.version,
            settings=canonical_json(self.settings.options),
            system=self.fingerprint,
            threads=self.settings.threads,
            protocol=self.protocol.name,
        )


def _chosen(backend: Backend, wanted: Mapping[str, str]) -> dict[str, str]:
    chosen = {name: option.default for name, option in backend.options.items()}
    for name, value in wanted.items():
        if name not in backend.options:
            known = ", ".join(backend.options) or "none"
            raise DLBricksError(
                f"backend {backend.name!r} has no option {name!r}", hint=f"It has: {known}."
            )
        choices = backend.options[name].choices
        if value not in choices:
            raise DLBricksError(
                f"option {name}={value}: no such value", hint=f"Choose from {', '.join(choices)}."
            )
        chosen[name] = value
    return chosen
