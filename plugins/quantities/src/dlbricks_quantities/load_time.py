"""Load time: the time in which a framework makes a network ready to run."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from dlbricks_core.backends import CpuTimer
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.metric import Metric
from dlbricks_core.values import materialize


class LoadTime(Metric):
    """Duration of the timer's ``load``, in a process that has loaded the same network before.

    It excludes reading a file, because weights and inputs are in memory, and any work that a
    framework defers to the first run. A model's load time includes the fixed cost of loading any
    network once.
    """

    quantity = Quantity("load-time", "ms", Composition.SUM, "time to load a network, when warm")

    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> Sequence[float]:
        """Milliseconds of the second of two loads of the network."""
        network = materialize(model, seed)
        taken_ms = 0.0
        for _ in range(2):
            begin = perf_counter()
            loaded = timer.load(network)
            taken_ms = (perf_counter() - begin) * 1e3
            timer.unload(loaded)
            del loaded
            gc.collect()
        return (taken_ms,)
