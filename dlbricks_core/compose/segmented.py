"""The sum over segments of the graph that the backend executes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dlbricks_core.compose.fitting import composing
from dlbricks_core.compose.sequential import Sequential


class Segmented(Sequential):
    """Sum of the latencies of segments, which are cut from the graph that the backend runs.

    A segment keeps together the layers that a framework fuses, and the layouts and buffers that
    layers share. Between two segments the backend passes on a single tensor, in the layout that the
    backend chose.
    """

    name = "segmented"
    cuts_rewritten = True
    strategy = "segments"
    granularity = 128
    rereading = True
    composing_error = composing().composing_error
    fitted: Mapping[str, str] = MappingProxyType(
        {"composing_error": "standard deviation of the relative error of an estimate"}
    )
