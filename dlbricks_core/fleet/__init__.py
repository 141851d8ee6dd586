"""A fleet: hosts that measure a suite together, on Dask distributed.

Everything that knows Dask is in this room; nothing else imports it. It needs the extra
``dlbricks[fleet]``, which the rest of DLBricks runs without.
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
