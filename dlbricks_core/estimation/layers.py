"""Stored latencies of a model's layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.figures.ranking import Cost
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.store import ResultStore


@dataclass(frozen=True)
class LayerLatencies:
    """Stored latencies of single layers.

    Attributes:
        request: How the layers were measured.
        ms: Latency of each measured layer in milliseconds without the call of the timer, by
            signature.
    """

    request: Request
    ms: Mapping[str, float]


def layer_latencies(model: CanonicalModel, request: Request, store: ResultStore) -> LayerLatencies:
    """Looks up all layers of a model. Runs nothing. Arguments as for :func:`estimate`."""
    single = CutOptions(granularity=1, strategy="chain", composer="sequential")
    result = estimate([model], single, request, store)
    known = {
        each.brick.signature: Cost.brick(each.latency).ms for each in result.bricks if each.latency
    }
    return LayerLatencies(result.request, known)
