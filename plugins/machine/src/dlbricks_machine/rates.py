"""Rates of a machine, from the latencies that a store has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbricks_prediction.rates import RATES, Unit, rated
from dlbricks_prediction.training_data import quiet_values

from dlbricks_core.analysis import Volume
from dlbricks_core.facts import LATENCY, Setup
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.cutting import Target
from dlbricks_core.store import ResultStore

_PROTOCOL = next(iter(PROTOCOLS.values()))


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


def rates_of(store: ResultStore, fingerprint: str) -> Mapping[Setup, Sequence[MachineRate]]:
    """Rates that a store holds of a system, by setup, in their usual order.

    Args:
        store: Store of the measurements.
        fingerprint: Fingerprint of the system.
    """
    shown = dict(zip(rated(), RATES.values(), strict=True))
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
