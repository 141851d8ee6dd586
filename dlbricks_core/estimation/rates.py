"""Rates of a machine: the latencies of networks by which a predictor characterizes a system."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.predict import usual_predictor
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

RUNS = 8
"""Runs of each network. Their scatter is small compared with the differences of layers between
systems."""


def time_rates(request: Request, store: ResultStore, observer: Observer) -> Ledger:
    """Times the networks that the store lacks, a few runs of each, and stores their latencies.

    Args:
        request: Backend, threads and system. Its precision and its budget do not count.
        store: Store of the measurements.
        observer: Receives the progress.
    """
    few = replace(request, runs=RUNS, precision=None, budget_s=None, force=False)
    networks = [Target(brick, "brick", group) for brick, group in usual_predictor().rates()]
    return measure(networks, few, store, observer)
