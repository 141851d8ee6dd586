"""A backend whose operators of the domain "faulty" really crash, hang, exhaust memory...

Everything else it computes with the ONNX reference evaluator.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
from onnx.reference import ReferenceEvaluator

from dlbricks_core.backends import Backend, CpuTimer, Traits
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import to_onnx


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def leave():
    os._exit(7)


def hang():
    time.sleep(3600)


def exhaust():
    blocks = []
    while True:
        blocks.append(np.ones(2**24))  # an eighth of a gigabyte that is really touched


def raise_error():
    raise RuntimeError("kernel not found")


def raise_while_ill():
    """Fails until the file is there whose path the environment tells."""
    if not Path(os.environ["FAULTY_WELL"]).exists():
        raise RuntimeError("still ill")


FAULTS = {
    "IllForNow": raise_while_ill,
    "Crash": crash,
    "Leave": leave,
    "Hang": hang,
    "Exhaust": exhaust,
    "Raise": raise_error,
}

SLOW_S = 0.4


class FaultyTimer(CpuTimer):
    def load(self, network):
        faults = [layer.op for layer in network.model.layers if layer.domain == "faulty"]
        if faults:
            return faults[0], network, {}
        proto = to_onnx(network.model, network.weights)
        return ReferenceEvaluator(proto), network, {}

    def run(self, loaded):
        evaluator, network, results = loaded
        if evaluator in FAULTS:
            FAULTS[evaluator]()
        elif evaluator == "NaN":
            results["t0"] = np.full(3, np.nan, dtype=np.float32)
        elif evaluator == "CrashLater":
            # Only when it is sampled, after it was loaded and warmed up well.
            results["count"] = results.get("count", 0) + 1
            if results["count"] > 6:
                crash()
        else:
            outputs = evaluator.run(None, dict(network.inputs))
            results.update(zip(network.model.outputs, outputs, strict=True))

    def warm_io(self, loaded):
        pass

    def outputs(self, loaded):
        return {k: v for k, v in loaded[2].items() if isinstance(v, np.ndarray)}


class FaultyBackend(Backend):
    name = "faulty"
    distribution = "onnx"
    traits = Traits(in_turns=True)

    def version(self):
        return "1.0"

    def environment(self, settings):
        well = os.environ.get("FAULTY_WELL", "")
        return {"PYTHONPATH": str(Path(__file__).parent), "FAULTY_WELL": well}

    def timer(self, settings):
        return FaultyTimer()

    def check(self, model):
        found = {}
        for i, layer in enumerate(model.layers):
            if layer.op == "CrashCheck":
                crash()
            if layer.op == "RaiseCheck":
                raise RuntimeError("not today")
            if layer.op == "Unsupported":
                found[i] = str(UnsupportedError("no counterpart for Unsupported"))
        return found


TARGET = "faulty_backend:FaultyBackend"


class WrongTimer(FaultyTimer):
    def run(self, loaded):
        evaluator, network, results = loaded
        inputs = {name: value * np.float32(1.01) for name, value in network.inputs.items()}
        results.update(zip(network.model.outputs, evaluator.run(None, inputs), strict=True))


class WrongBackend(FaultyBackend):
    """Computes on inputs that are off by one part in a hundred."""

    name = "wrong"

    def timer(self, settings):
        return WrongTimer()


class SlowTimer(FaultyTimer):
    def run(self, loaded):
        if any(layer.op == "Relu" for layer in loaded[1].model.layers):
            time.sleep(SLOW_S)
        super().run(loaded)


class SlowBackend(FaultyBackend):
    """Takes its time for networks that have a Relu."""

    name = "slow"

    def timer(self, settings):
        return SlowTimer()


class BreakingTimer(FaultyTimer):
    def profile(self, network, runs):
        crash()


class BreakingBackend(FaultyBackend):
    """Crashes when it is asked for a profile."""

    def timer(self, settings):
        return BreakingTimer()
