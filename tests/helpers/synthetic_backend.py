"""A backend whose operators take a known time, on a clock that can be made up.

A network takes ``CALL_NS`` a run, and for every layer its operator's ``NS_PER_ELEMENT``
times the elements of its result. Either a busy loop lets that time really pass, or a
clock of the worker's own says that it has. Simulated time depends on nothing else, and has
exactly the noise and drift that a test asks for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from dlbricks_core.backends import (
    Backend,
    BackendOption,
    CpuTimer,
    Profile,
    ProfiledLayer,
    host,
    profiles,
)

CALL_NS = 20_000
NS_PER_ELEMENT = {"Relu": 100, "Tanh": 400, "Abs": 150, "Neg": 250, "Add": 200, "Sigmoid": 1}
"""Sigmoid, which the engine wakes a framework with, is as cheap as elsewhere."""

SLOWDOWN = 0.04
"""Mean of how much slower a run is than on a quiet machine, relative; exponential. On real
machines, whole models scatter nearly as much as bricks: most of the noise is common to all
layers of a run."""
LAYER_NOISE = 0.01
"""Standard deviation of a layer's own time, relative."""
INTERRUPTS_PER_NS = 1 / 60e6
INTERRUPT_NS = 2e6
DRIFT, DRIFT_PERIOD_NS = 0.15, 4e8
"""Amplitude and period of the changes in the machine's speed."""


def cost_ns(model):
    """What each layer takes on a quiet machine."""
    return [
        NS_PER_ELEMENT[layer.op] * math.prod(model.tensors[layer.outputs[0]].sizes)
        for layer in model.layers
    ]


def truth_ms(model):
    """Latency of a network on a quiet machine."""
    return (CALL_NS + sum(cost_ns(model))) / 1e6


def noisy_ms(model):
    """Latency of a network where runs slow down: the mean of the faster half of them all.

    The faster half of exponential numbers has ``1 - log(2)`` of their mean.
    """
    return truth_ms(model) * (1 + SLOWDOWN * (1 - math.log(2)))


class BusyClock:
    """Lets time pass by waiting for it."""

    def begin_run(self):
        pass

    def spend(self, ns):
        end = perf_counter_ns() + ns
        while perf_counter_ns() < end:
            pass


@dataclass
class SimulatedClock:
    """Time that only passes when it is spent."""

    noise: bool
    drift: bool
    ns: float = 0.0
    slowdown: float = 0.0
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def now(self):
        return round(self.ns)

    def begin_run(self):
        if self.noise:
            self.slowdown = self.random.exponential(SLOWDOWN)

    def spend(self, ns):
        ns *= 1 + self.slowdown
        if self.drift:
            ns *= 1 + DRIFT * math.sin(2 * math.pi * self.ns / DRIFT_PERIOD_NS)
        if self.noise:
            ns *= max(self.random.normal(1, LAYER_NOISE), 0.5)
            ns += INTERRUPT_NS * self.random.poisson(INTERRUPTS_PER_NS * ns)
        self.ns += ns


@dataclass
class Loaded:
    """A network, and how long its runs took from within."""

    costs_ns: list[int]
    inside_ms: list[float] = field(default_factory=list)


class SyntheticTimer(CpuTimer):
    def __init__(self, clock):
        self.clock = clock

    def load(self, network):
        return Loaded([CALL_NS, *cost_ns(network.model)])

    def run(self, loaded):
        begin = perf_counter_ns()
        self.clock.begin_run()
        for ns in loaded.costs_ns:
            self.clock.spend(ns)
        loaded.inside_ms.append((perf_counter_ns() - begin) / 1e6)

    def warm_io(self, loaded):
        pass

    def profile(self, network, runs):
        """Layers alone, in half of their time; the profiler sees neither the call nor the rest."""
        layers = network.model.layers
        times = [ns / 2e6 for ns in cost_ns(network.model)]
        profiled = [
            ProfiledLayer(layer.name, layer.op, layer.outputs, ms)
            for layer, ms in zip(layers, times, strict=True)
        ]
        return Profile(profiled, sum(times))

    def outputs(self, loaded):
        return {"inside_ms": np.array(loaded.inside_ms)}


class SyntheticBackend(Backend):
    name = "synthetic"
    distribution = "onnx"
    options: Mapping[str, BackendOption] = {
        "clock": BackendOption("simulated", ("simulated", "busy"), "How time passes."),
        "noise": BackendOption("no", ("no", "yes"), "Whether layers' times scatter."),
        "drift": BackendOption("no", ("no", "yes"), "Whether the machine's speed changes."),
    }

    def version(self):
        return "1.0"

    def environment(self, settings):
        return {"PYTHONPATH": str(Path(__file__).parent)}

    def timer(self, settings):
        chosen = settings.options
        if chosen.get("clock") == "busy":
            return SyntheticTimer(BusyClock())
        clock = SimulatedClock(chosen["noise"] == "yes", chosen["drift"] == "yes")
        for module in (host, profiles):
            assert module.perf_counter_ns is perf_counter_ns
            module.perf_counter_ns = clock.now
        return SyntheticTimer(clock)

    def check(self, model):
        return {
            i: f"no cost for {layer.op}"
            for i, layer in enumerate(model.layers)
            if layer.op not in NS_PER_ELEMENT
        }


TARGET = "synthetic_backend:SyntheticBackend"
