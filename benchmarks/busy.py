"""Sums of bricks beside whole models in processor time: accuracy on a machine that is busy.

    python benchmarks/busy.py openvino mxnet:resnet50_v1 onnx:light_densenet121

A whole model and its bricks lie in one process and run in turn, prepared as in workers of DLBricks,
with one thread. Processor time leaves out what others run meanwhile, but not that they use the
caches and the memory. Printed are medians over the rounds, and the quartiles of the ratio of the
sum to the whole in each round.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import fmean, median, quantiles
from time import process_time_ns
from typing import Any

from dlbricks_core.backends import BackendSettings, host
from dlbricks_core.backends.host import CALLS, TimerHost
from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.machine.system import largest_cache, near_caches
from dlbricks_core.measure.worker import start_of_a_line
from dlbricks_core.plugins import find

RUNS = 3
"""Runs of each network in a round."""


def compared(name: str, backend: str, rounds: int) -> dict[str, Any]:
    """The sum over bricks beside the whole model.

    Args:
        name: The model, ``importer:name``.
        backend: Name of the backend.
        rounds: Rounds that count.
    """
    plugin = find("backend", backend).loaded()
    settings = BackendSettings(1, {name: each.default for name, each in plugin.options.items()})
    importer, _, found = name.partition(":")
    raw = find("models", importer).loaded().load(found)
    model = canonical(raw, LoadOptions(batch=1), raw.source).model
    cut = BrickSet.of([plugin.rewrite(model, settings, 0)], 128, "segments")
    (parts,) = cut.models
    timed = TimerHost()
    target = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
    timed.start(target, settings, None, largest_cache(), near_caches(1) or 0, True, True)
    timed.load("whole", parts.model, 0, "model")
    for signature, brick in cut.bricks.items():
        timed.load(signature, brick.model, 0, "brick")
    sums, wholes = [], []
    for _ in range(1 + rounds):
        taken: dict[str, list[float]] = {key: [] for key in ("whole", *CALLS, *cut.bricks)}
        for number in range(RUNS):
            for key in sorted(taken, reverse=bool(number % 2)):
                taken[key] += timed.sample(key, 1, warm_io=True)
        ms = {key: median(each) for key, each in taken.items()}
        call = start_of_a_line([ms[key] for key in CALLS])
        wholes.append(ms["whole"] - call)
        sums.append(sum(n * (ms[key] - call) for key, n in parts.counts.items()))
    del wholes[0], sums[0]  # while the first runs settle
    low, ratio, high = quantiles([a / b for a, b in zip(sums, wholes, strict=True)], n=4)
    return {
        "model": found, "bricks": len(cut.bricks), "bricks_ms": round(median(sums), 2),
        "whole_ms": round(median(wholes), 2), "ratio": round(ratio, 3),
        "quartiles": [round(low, 3), round(high, 3)],
    }  # fmt: skip


def main() -> None:
    """Prints a line of JSON for each model, and the mean error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("backend")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    host.perf_counter_ns = process_time_ns  # type: ignore[attr-defined]
    errors = []
    for name in given.models:
        found = compared(name, given.backend, given.rounds)
        errors.append(abs(found["ratio"] - 1))
        print(json.dumps(found), flush=True)
    within = fmean(each <= 0.05 for each in errors)
    print(f"mean error {fmean(errors):.1%}, {within:.0%} within 5%", file=sys.stderr)


if __name__ == "__main__":
    main()
