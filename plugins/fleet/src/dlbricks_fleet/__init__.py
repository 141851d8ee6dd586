"""Fleets: hosts that measure one suite together, connected by Dask distributed.

It adds the command ``dlbricks fleet``. Only this distribution imports Dask; the rest of DLBricks
runs without it.
"""

from __future__ import annotations

from dlbricks_fleet.records import (
    Fleet,
    FleetResult,
    Gone,
    Host,
    HostResult,
    KindResult,
    RunState,
)

__all__ = ["Fleet", "FleetResult", "Gone", "Host", "HostResult", "KindResult", "RunState"]
