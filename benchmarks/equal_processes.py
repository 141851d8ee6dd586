r"""Compares equal processes that load and run the same model, with and without kept freed memory.

    python benchmarks/equal_processes.py BACKEND MODEL --processes 10
    python benchmarks/equal_processes.py onnxruntime llm:gpt2 --dim batch=1 sequence=1 past=64

Each process runs the whole model in a loop on one core, through the backend's timer and nothing
else of DLBricks. Processes with glibc's defaults and processes that keep freed memory
(`dlbricks_core/worker/memory.py`) take turns. Of each, the output has the median latency of 40
runs in milliseconds, and the page faults of a run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from statistics import median, stdev
from time import perf_counter

from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import load_object
from dlbricks_core.progress import Observer
from dlbricks_core.values import materialize
from dlbricks_core.worker.memory import keep_freed

WARM_RUNS, RUNS = 10, 40


def main() -> None:
    """Starts the processes in turn, and prints what each took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("backend")
    parser.add_argument("model")
    parser.add_argument("--dim", nargs="*", default=[], metavar="NAME=SIZE")
    parser.add_argument("--processes", type=int, default=5, help="of each kind")
    parser.add_argument("--one", choices=["usual", "kept"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(*one(asked.backend, asked.model, asked.dim, keep=asked.one == "kept"))
        return
    found: dict[str, list[float]] = {"usual": [], "kept": []}
    for _ in range(asked.processes):
        for kind, taken in found.items():
            command = [sys.executable, *sys.argv, "--one", kind]
            out = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL)
            ms, faults = map(float, out.split())
            taken.append(ms)
            print(f"{kind:5} {ms:8.2f} ms {faults:8.0f} page faults", flush=True)
    for kind, taken in found.items():
        spread = stdev(taken) / median(taken) if len(taken) > 1 else 0.0
        print(f"{kind}: median {median(taken):.2f} ms, standard deviation {spread:.1%}")


def one(backend: str, name: str, dims: list[str], *, keep: bool) -> tuple[float, float]:
    """Median latency in milliseconds, and page faults of a run, in this process."""
    sizes = {key: int(size) for key, _, size in (each.partition("=") for each in dims)}
    (model,) = load_models([name], LoadOptions(dims=sizes), Observer()).models
    request = Request.of(backend, threads=1)
    os.environ.update(request.backend.environment(request.settings))
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    if keep:
        keep_freed()
    timer = load_object(request.plugin.target)().timer(request.settings)
    (cut,) = BrickSet.of([model]).models
    loaded = timer.load(materialize(cut.whole.model, 0))
    taken = []
    for number in range(WARM_RUNS + RUNS):
        if number == WARM_RUNS:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        begin = perf_counter()
        timer.run(loaded)
        timer.synchronize(loaded)
        taken.append(1e3 * (perf_counter() - begin))
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return median(taken[WARM_RUNS:]), faults / RUNS


if __name__ == "__main__":
    main()
