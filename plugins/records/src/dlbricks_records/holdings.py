"""Content of a store by machine, framework and threads, in JSON."""

from __future__ import annotations

from typing import TypedDict

from dlbricks_records.contents import Holding


class HoldingData(TypedDict):
    """Content of a store for one machine, framework and number of threads."""

    system: str  #: Fingerprint of the system.
    machine: str  #: Name of the machine; empty if it has none.
    backend: str  #: Name of the backend.
    version: str  #: Version of its framework.
    threads: int  #: Threads that compute one operator.
    networks: int  #: Different bricks and models that were measured.
    failures: int  #: Measurements that failed.
    observations: int  #: Observations, each of one or several samples.
    samples: int  #: Samples in all observations.
    first: str | None  #: Time of the first observation, as ISO 8601.
    last: str | None  #: Time of the last observation.


def holding_data(holding: Holding) -> HoldingData:
    """Holdings of the store for one place."""
    place = holding.place
    return {
        "system": place.system,
        "machine": place.machine,
        "backend": place.backend,
        "version": place.version,
        "threads": place.threads,
        "networks": len(holding.networks),
        "failures": holding.failures,
        "observations": holding.observations,
        "samples": holding.samples,
        "first": holding.first or None,
        "last": holding.last or None,
    }
