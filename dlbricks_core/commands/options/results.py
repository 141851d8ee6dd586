"""Requests of commands that estimate from results files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dlbricks_core.estimation.results_files import place_of
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.request import Request, protocol_of
from dlbricks_core.store import ResultStore


def request_elsewhere(
    results: ResultStore, system: str | None, asked: Mapping[str, Any]
) -> Request:
    """Request for the place where results were measured.

    Args:
        results: Measurements of the results files.
        system: As for :func:`.place_of`.
        asked: Arguments of :meth:`Request.of`.

    Raises:
        DLBricksError: If no place matches, or more than one.
    """
    place = place_of(
        results,
        asked["backend"],
        protocol=protocol_of(
            asked.get("protocol", next(iter(PROTOCOLS))), asked.get("quantity", LATENCY.name)
        ),
        system=system,
        threads=asked.get("threads"),
        backend_options=asked.get("backend_options", {}),
    )
    request = Request.of(**asked, system=place.system, measured=place.setup)
    # However little was measured there, it cannot be measured further here.
    return request if asked.get("runs") else replace(request, runs=1)
