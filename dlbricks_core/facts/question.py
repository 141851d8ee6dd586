"""Questions: the latency of which subject is asked for, under which setup, on which system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["brick", "model", "native"]
"""A brick, a whole model as the backend lowers it, or as its own framework runs it."""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """A network that a question is about.

    Attributes:
        signature: Of the brick, or of the whole model.
        kind: A brick and a whole model are timed side by side, even where a model is so short
            that it is its only brick.
    """

    signature: str
    kind: Kind


@dataclass(frozen=True, slots=True, order=True)
class Setup:
    """How a network runs. Only figures of one setup may be mixed.

    Attributes:
        backend: Name of the backend.
        version: Of its framework.
        options: The backend's options as :func:`~dlbricks_core.facts.canonical_json`.
        threads: Number of threads that compute one operator.
        protocol: Canonical text of how it is timed, such as ``interleaved:rounds=30,sweep``.
    """

    backend: str
    version: str
    options: str
    threads: int
    protocol: str


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """The identity of a figure: only observations that agree in all of it may be mixed.

    Attributes:
        subject: What is asked about.
        setup: How it runs.
        system: Fingerprint of the system that it runs on.
    """

    subject: Subject
    setup: Setup
    system: str
