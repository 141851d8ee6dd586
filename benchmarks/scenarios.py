r"""Throughput and tail latency under load, composed from bricks beside those of whole models.

    python benchmarks/scenarios.py BACKEND MODEL...
    python benchmarks/scenarios.py onnxruntime onnx:squeezenet --rounds 3 --seconds 20 --json FILE

For every n x m that fits, each round has three steps in direct succession: it composes again, puts
the whole model under load with the product's load generator, and puts it under load with a
generator of this script. The script's generator is as simple as possible: a process that sleeps
until each arrival and puts a number into a queue, and workers that take numbers from it. It shares
only the backend's timer and the allocator's settings with the product. Of each n x m it prints

- the throughput of the offline scenario, and the error of the composed one;
- the 99th percentile of queries that arrive at a share of that throughput, and its error;
- with `--bound FACTOR`, most queries per second whose 99th percentile is within so many latencies.

Figures are medians over the rounds. Goals: 5% for throughput, 15% for the 99th percentile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np
from dlbricks_serving.core_sets import core_sets
from dlbricks_serving.load import LoadGenerator, ServingWorker
from dlbricks_serving.scenarios import (
    Scenario,
    ServiceTimes,
    answer,
    most_qps_under,
    percentile,
    served_at,
)
from dlbricks_serving.serving.composed import service_times
from dlbricks_serving.serving.measured import Load, measured
from dlbricks_serving.serving.run import LoadRequest, Placement

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import LoadSampler
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import WorkerSettings
from dlbricks_core.plugins import load_object
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.values import materialize
from dlbricks_core.worker import memory_to_use
from dlbricks_core.worker.memory import keep_freed

SHARE = 0.7
"""Rate of arrivals at which percentiles are compared, as a share of the offline throughput."""

WARM_RUNS = 5


@dataclass(frozen=True)
class Figures:
    """Figures of instances from one source.

    Attributes:
        throughput: Samples per second when all samples are available.
        p99_ms: 99th percentile of the latency at the rate of the comparison, in milliseconds.
        qps: Maximum queries per second within the bound; ``None`` if not requested.
    """

    throughput: float
    p99_ms: float
    qps: float | None = None


@dataclass(frozen=True)
class Round:
    """Figures of one round.

    Attributes:
        composed: Figures composed from bricks.
        product: Figures from the product's load generator.
        own: Figures from this script's load generator.
        load: Share of the processors' time that others used.
    """

    composed: Figures
    product: Figures
    own: Figures
    load: float | None


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("backend")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--bound", type=float, help="bound of the server scenario, in latencies")
    parser.add_argument("--instances", type=int, action="append")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    request = Request.of(asked.backend, threads=1)
    placements = LoadRequest.of(
        "offline", instances=asked.instances, threads=asked.threads
    ).placements
    found = []
    print(f"{'model':24} {'n x m':>6} {'':8} {'samples/s':>10} {'p99 ms':>8} {'queries/s':>10}")
    loaded = load_models(asked.models, LoadOptions(), Observer()).models
    for model in (_without_values(each) for each in loaded):
        for placement in placements:
            try:
                rounds = [
                    _round(model, request, placement, asked.seconds, asked.bound, seed)
                    for seed in range(asked.rounds)
                ]
            except DLBricksError as error:
                print(f"{model.name[:24]:24} {placement!s:>6} failed: {error.message}")
                continue
            _print(model.name, placement, rounds)
            found.append(
                {
                    "model": model.name,
                    **asdict(placement),
                    "rounds": [asdict(each) for each in rounds],
                }
            )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1), "utf-8")


def _without_values(model: CanonicalModel) -> CanonicalModel:
    """The model without the values in its file, so that all compute with drawn ones."""
    (cut,) = BrickSet.of([model]).models
    return replace(cut.whole.model, name=model.name)


def _print(name: str, placement: Placement, rounds: Sequence[Round]) -> None:
    ways = {
        way: Figures(
            *(
                None if values[0] is None else median(values)
                for values in zip(
                    *(asdict(getattr(each, way)).values() for each in rounds), strict=True
                )
            )
        )
        for way in ("composed", "product", "own")
    }
    for way, figures in ways.items():
        head = f"{name[:24]:24} {placement!s:>6}" if way == "composed" else " " * 31
        print(f"{head} {way:8} {_cells(figures)}")
    for way in ("product", "own"):
        errors = [
            "-" if mine is None or true is None else f"{mine / true - 1:+.1%}"
            for mine, true in zip(
                asdict(ways["composed"]).values(), asdict(ways[way]).values(), strict=True
            )
        ]
        print(f"{'':24} {'':6} {'-' + way:8} {errors[0]:>10} {errors[1]:>8} {errors[2]:>10}")
    loads = [each.load for each in rounds if each.load is not None]
    if loads:
        print(f"{'':31} others used {max(loads):.0%} of the processors at most", flush=True)


def _cells(figures: Figures) -> str:
    qps = "-" if figures.qps is None else f"{figures.qps:.1f}"
    return f"{figures.throughput:>10.2f} {figures.p99_ms:>8.2f} {qps:>10}"


def _round(
    model: CanonicalModel,
    request: Request,
    placement: Placement,
    seconds: float,
    bound: float | None,
    seed: int,
) -> Round:
    """One round: composition, the product's generator, and this script's generator."""
    own = replace(
        request,
        settings=BackendSettings(placement.threads, request.settings.options),
        setup=replace(request.setup, threads=placement.threads),
    )
    sampler = LoadSampler()
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultStore.open(str(Path(folder, "s.sqlite"))) as store,
    ):
        (found,) = service_times(
            [model], own, placement.instances, placement.threads, store, Observer()
        )
        if found.service is None:
            raise DLBricksError(found.reason)
        service = found.service
        offline, p99_ms, single_ms = _product(model, own, placement, seconds, seed)
        qps = most = None
        if bound is not None:
            bound_ms = bound * single_ms
            load = Load(Scenario.SERVER, bound_ms, seconds)
            (taken,) = measured([model], own, load, placement.instances, store, Observer())
            if taken.answer is None:
                raise DLBricksError(taken.reason)
            most = taken.answer.throughput
            qps = most_qps_under(bound_ms, 0.99, service, seed)
        product = Figures(offline, p99_ms, most)
        simple = _own(model, own, placement, seconds, SHARE * offline, seed)
        composed = Figures(
            answer(Scenario.OFFLINE, service, None, seed).throughput,
            _composed_p99(service, SHARE * offline, _queries(SHARE * offline, seconds), seed),
            qps,
        )
    return Round(composed, product, simple, sampler.load().share)


def _composed_p99(service: ServiceTimes, qps: float, queries: int, seed: int) -> float:
    """Percentile of the same arrivals that the generators use: another draw has another tail."""
    most = 1e3 * service.instances / float(np.mean(service.latency_ms))
    run = served_at(service, min(qps, 0.99 * most), seed, queries)
    return percentile(run.latency_ms, 0.99)


def _queries(qps: float, seconds: float) -> int:
    """Number of queries in a load."""
    return max(100, min(int(qps * seconds), 100_000))


def _product(
    model: CanonicalModel, request: Request, placement: Placement, seconds: float, seed: int
) -> tuple[float, float, float]:
    """Offline throughput, 99th percentile, and latency alone, by the product's generator."""
    settings = WorkerSettings(
        request.settings, request.seed, request.timeout_s, memory_to_use() // placement.instances
    )
    with ExitStack() as opened:
        generator = LoadGenerator(
            [
                opened.enter_context(
                    ServingWorker(request.plugin.target, request.backend, settings, cpus)
                )
                for cpus in core_sets(placement.instances, placement.threads)
            ]
        )
        generator.load(model)
        generator.offline(1.0)
        single = generator.stream(Scenario.SINGLE_STREAM, 1.0)
        throughput = generator.offline(seconds).run.throughput
        qps = SHARE * throughput
        queries = _queries(qps, seconds)
        run = generator.server(qps, queries, 1e9, np.random.default_rng(seed))
    return throughput, percentile(run.run.latency_ms, 0.99), float(np.median(single.service_ms))


def _own(
    model: CanonicalModel,
    request: Request,
    placement: Placement,
    seconds: float,
    qps: float,
    seed: int,
) -> Figures:
    """Figures from a generator that shares no code with the product's."""
    context = multiprocessing.get_context("spawn")
    numbers: Any = context.SimpleQueue()
    done: Any = context.Queue()
    os.environ.update(request.backend.environment(request.settings))
    workers = [
        context.Process(
            target=_work, args=(request.plugin.target, request.settings, model, cpus, numbers, done)
        )
        for cpus in core_sets(placement.instances, placement.threads)
    ]
    for each in workers:
        each.start()
    try:
        for _ in workers:
            done.get(timeout=600)  # the worker is ready
        throughput = _offline(numbers, done, seconds, placement.instances)
        return Figures(throughput, percentile(_poisson(numbers, done, seconds, qps, seed), 0.99))
    finally:
        for _ in workers:
            numbers.put(None)
        for each in workers:
            each.join(60)


def _work(
    target: str,
    settings: BackendSettings,
    model: CanonicalModel,
    cpus: Sequence[int],
    numbers: Any,
    done: Any,
) -> None:
    """One worker: takes numbers until none is left, and reports the completion time of each."""
    os.sched_setaffinity(0, cpus)
    keep_freed()
    timer = load_object(target)().timer(settings)
    loaded = timer.load(materialize(model, 0))

    def run() -> None:
        timer.run(loaded)
        timer.synchronize(loaded)

    for _ in range(WARM_RUNS):
        run()
    done.put(("ready", 0.0))
    while (number := numbers.get()) is not None:
        run()
        done.put((number, perf_counter()))


def _offline(numbers: Any, done: Any, seconds: float, instances: int) -> float:
    """Samples per second with a few numbers always waiting."""
    begin = perf_counter()
    for number in range(2 * instances):
        numbers.put(number)
    count, end = 0, begin
    while end - begin < seconds:
        _, end = done.get()
        count += 1
        numbers.put(count)
    for _ in range(2 * instances):
        done.get()
    return count / (end - begin)


def _poisson(numbers: Any, done: Any, seconds: float, qps: float, seed: int) -> FloatArray:
    """Latencies in milliseconds of queries that arrive at a rate."""
    queries = _queries(qps, seconds)
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / qps, queries))
    begin = perf_counter() + 0.1
    for number, arrival in enumerate(arrivals):
        sleep(max(begin + arrival - perf_counter(), 0))
        numbers.put(number)
    ends = np.empty(queries)
    for _ in range(queries):
        number, end = done.get()
        ends[number] = end
    return np.asarray((ends - begin - arrivals) * 1e3)


if __name__ == "__main__":
    main()
