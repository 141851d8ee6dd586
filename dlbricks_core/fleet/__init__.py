"""Fleets: hosts that measure one suite together, connected by Dask distributed.

Only this room imports Dask. Dask comes with the extra ``dlbricks[fleet]``; the rest of DLBricks
runs without it.
"""

from __future__ import annotations

from dlbricks_core.fleet.records import (
    Fleet,
    FleetResult,
    Gone,
    Host,
    HostResult,
    KindResult,
    RunState,
)

__all__ = ["Fleet", "FleetResult", "Gone", "Host", "HostResult", "KindResult", "RunState"]
