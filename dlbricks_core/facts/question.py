"""Questions: a quantity of a subject, under a setup, on a system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dlbricks_core.facts.quantity import Quantity

Kind = Literal["brick", "model", "native", "profiled"]
"""A brick that runs alone; a whole model as the backend lowers it, or as its user runs it; or a
brick inside a running model, measured by the framework's profiler."""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """A network that a question is about.

    Attributes:
        signature: Signature of the brick, or of the whole model.
        kind: Role of the network. A model so short that it is its only brick is measured
            as both.
    """

    signature: str
    kind: Kind

    @property
    def is_whole(self) -> bool:
        """Whether the network is a whole model, in either form."""
        return self.kind in ("model", "native")


@dataclass(frozen=True, slots=True, order=True)
class Setup:
    """How a network runs. Only figures of one setup may be mixed.

    Attributes:
        backend: Name of the backend.
        version: Version of its framework.
        options: The backend's options as :func:`~dlbricks_core.facts.canonical_json`.
        threads: Number of threads that compute one operator.
        protocol: Canonical text of how it is timed, such as ``interleaved:rounds=30,sweep``.
        plugin: Version of the backend's plugin, which lowers networks for the framework;
            for a plugin under development with a hash of its code, such as ``0.1.0+3f9a12c4``.
    """

    backend: str
    version: str
    options: str
    threads: int
    protocol: str
    plugin: str

    @property
    def told_threads(self) -> str:
        """Number of threads in words: ``1 thread``, ``2 threads``."""
        return "1 thread" if self.threads == 1 else f"{self.threads} threads"


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """The identity of a figure: only observations that agree in all of it may be mixed.

    Attributes:
        subject: The network that is asked about.
        quantity: Requested quantity.
        setup: How it runs.
        system: Fingerprint of the system that it runs on.
    """

    subject: Subject
    quantity: Quantity
    setup: Setup
    system: str
