"""Requests for stored measurements, under the setup in which they were taken."""

from __future__ import annotations

import json

from dlbricks_core.backends import Backend, BackendSettings
from dlbricks_core.errors import PluginError
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.protocols import FEWEST_QUIET, HOT, PROTOCOLS
from dlbricks_core.machine.system import current_system
from dlbricks_core.measure.known_setups import AbsentBackend
from dlbricks_core.measure.metric import Metric
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin, find, use

_FEWEST_OBSERVED = 2
"""Minimum number of observations by a metric that show their scatter."""


def request_for_stored(setup: Setup, system: System, metric: Metric | None = None) -> Request:
    """Request for stored measurements under a setup on a system.

    The request cannot measure, and needs no installed framework. It accepts measurements with
    the minimum number of samples that shows their scatter. For a metric, whose observations may
    take many seconds, that is two.

    Args:
        setup: The setup.
        system: The system.
        metric: Metric of the quantity; ``None`` for latency.
    """
    try:
        installed = find("backend", setup.backend, Backend)
        backend = use(installed, installed.loaded)
    except PluginError:
        backend = AbsentBackend([setup])
    protocols = [*PROTOCOLS.values(), HOT] if metric is None else [metric.protocol]
    protocol = next(each for each in protocols if each.identity == setup.protocol)
    here = current_system()
    return Request(
        plugin=Plugin("backend", setup.backend, "", "", ""),
        backend=backend,
        setup=setup,
        settings=BackendSettings(setup.threads, json.loads(setup.options)),
        protocol=protocol,
        runs=FEWEST_QUIET if metric is None else _FEWEST_OBSERVED,
        system=here,
        elsewhere=None if system.fingerprint == here.fingerprint else system,
        metric=metric,
    )
