"""The time of the first run after loading."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from dlbricks_core.backends import CpuTimer
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure import Metric
from dlbricks_core.values import materialize


class FirstRun(Metric):
    """Time of the first run of a network that was just loaded."""

    quantity = Quantity("first-run", "ms", Composition.SUM, "time of the first run")

    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> tuple[float]:
        """Milliseconds of one first run."""
        loaded = timer.load(materialize(model, seed))
        begin = perf_counter()
        timer.run(loaded)
        timer.synchronize(loaded)
        taken_ms = (perf_counter() - begin) * 1e3
        timer.unload(loaded)
        return (taken_ms,)
