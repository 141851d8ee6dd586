"""Rates of a machine: the latencies of a fixed set of small networks.

Each network measures one kind of work: products of several sizes, convolutions of each sort, bytes
from caches and from memory, exponentials, layers that only move data, or the cost of a call. The
networks belong to the survey, so the reference data contain them for other systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Literal

from dlbricks_core import survey
from dlbricks_core.analysis import Volume
from dlbricks_core.facts import LATENCY, Setup
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.atlas import SURVEYED
from dlbricks_core.predict.training_data import quiet_values
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

Unit = Literal["GFLOP/s", "GB/s", "us"]

_RATES: Mapping[int, tuple[str, Unit]] = {
    2: ("large product", "GFLOP/s"),
    26: ("product of few rows", "GFLOP/s"),
    40: ("product of one row", "GB/s"),
    30: ("layers of a transformer", "GFLOP/s"),
    58: ("products of activations", "GFLOP/s"),
    108: ("convolution, 3x3", "GFLOP/s"),
    89: ("convolution, 1x1", "GFLOP/s"),
    54: ("residual block", "GFLOP/s"),
    91: ("convolution in groups", "GFLOP/s"),
    105: ("convolution of each channel", "GFLOP/s"),
    50: ("block of a mobile network", "GFLOP/s"),
    79: ("transposed convolution", "GFLOP/s"),
    56: ("recurrent layer", "GFLOP/s"),
    19: ("bytes from memory", "GB/s"),
    97: ("exponentials", "GB/s"),
    65: ("normalization of rows", "GB/s"),
    73: ("softmax", "GB/s"),
    100: ("pool", "GB/s"),
    21: ("resize", "GB/s"),
    15: ("transposition", "GB/s"),
    44: ("shuffle of channels", "GB/s"),
    51: ("concatenation", "GB/s"),
    62: ("call of a small layer", "us"),
}
"""Name and unit of the rate that each network shows, by its place in the survey's order."""

_PROTOCOL = next(iter(PROTOCOLS.values()))


RUNS = 8
"""Runs of each network. Their scatter is small compared with the differences of layers between
systems."""


@dataclass(frozen=True)
class MachineRate:
    """Work of a machine in a second, or time of a call, inside a framework.

    Attributes:
        name: What was timed.
        value: Operations or bytes in a second, in units of 1e9, or microseconds.
        unit: Unit of the value.
    """

    name: str
    value: float
    unit: Unit


def surveyed(number: int) -> dict[str, Target]:
    """The first networks of the survey, by signature.

    Args:
        number: Number of networks.
    """
    return {target.brick.signature: target for target in _first(number)}


@cache
def _first(number: int) -> tuple[Target, ...]:
    """The first networks of the survey, drawn once for all models of a process."""
    return tuple(
        Target(each.brick, "brick", SURVEYED + each.family)
        for each in islice(survey.draw(), number)
    )


@cache
def rated() -> Mapping[str, Target]:
    """The networks, by signature."""
    drawn = [*surveyed(max(_RATES) + 1).items()]
    return dict(drawn[place] for place in _RATES)


def time_rates(request: Request, store: ResultStore, observer: Observer) -> Ledger:
    """Times the networks that the store lacks, a few runs of each, and stores their latencies.

    Args:
        request: Backend, threads and system. Its precision and its budget do not count.
        store: Store of the measurements.
        observer: Receives the progress.
    """
    few = replace(request, runs=RUNS, precision=None, budget_s=None, force=False)
    return measure(rated().values(), few, store, observer)


def rates_of(store: ResultStore, fingerprint: str) -> Mapping[Setup, Sequence[MachineRate]]:
    """Rates that a store holds of a system, by setup, in their usual order.

    Args:
        store: Store of the measurements.
        fingerprint: Fingerprint of the system.
    """
    shown = dict(zip(rated(), _RATES.values(), strict=True))
    found: dict[Setup, dict[str, MachineRate]] = {}
    for each in store.sampled(LATENCY, system=fingerprint):
        subject, setup = each.question.subject, each.question.setup
        samples = quiet_values(each)[0]
        if subject.signature in shown and setup.protocol == _PROTOCOL.identity and samples:
            ms = float(_PROTOCOL.statistic(samples))
            name, unit = shown[subject.signature]
            rate = MachineRate(name, _value(rated()[subject.signature], unit, ms), unit)
            found.setdefault(setup, {})[subject.signature] = rate
    return {setup: [own[s] for s in shown if s in own] for setup, own in found.items()}


def _value(target: Target, unit: Unit, ms: float) -> float:
    if unit == "us":
        return ms * 1e3
    volume = Volume.of(target.brick.model)
    return (volume.flops if unit == "GFLOP/s" else volume.nbytes) / (ms * 1e6)
