"""Rewrites: graphs that a backend makes of models before running them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A graph that a backend makes of a model; it does not depend on how the model is timed.

    Attributes:
        signature: Signature of the whole model.
        backend: Name of the backend.
        version: Version of its framework.
        options: The backend's options as :func:`~dlbricks_core.facts.canonical_json`.
        plugin: Version of the backend's plugin.
        system: Fingerprint of the system that the backend ran on.
        threads: Number of threads that compute one operator.
        graph: Serialized graph.
    """

    signature: str
    backend: str
    version: str
    options: str
    plugin: str
    system: str
    threads: int
    graph: bytes
