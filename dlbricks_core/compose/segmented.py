"""The sum over segments of what the backend really executes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dlbricks_core.compose.sequential import Sequential


class Segmented(Sequential):
    """Sequential total latency over segments, cut from the graph that the backend executes.

    A segment holds what a framework fuses, and the layouts and buffers that its layers
    share: what crosses between two of them is one tensor, in the form in which the backend
    hands it on.
    """

    name = "segmented"
    cuts_rewritten = True
    strategy = "segments"
    granularity = 128
    rereading = True
    composing_error = 0.03
    fitted: Mapping[str, str] = MappingProxyType(
        {"composing_error": "standard deviation of what an estimate is off by"}
    )
