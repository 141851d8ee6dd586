"""How well bricks tell what a model takes while other instances of it are busy.

    python benchmarks/contention.py BACKEND MODEL... [--instances 2] [--threads 1] [--loads]

For each model: latencies of the whole model alone and while all instances run it over and over,
and the same composed from bricks, with the error of each. The whole model is timed in two halves,
before and after the bricks. Of latencies, the mean of the faster half stands for the usual one, as
in estimates; means decide throughput.

With --loads, bricks are timed by hand while the others run different things, in rounds that go
through all of these: the same brick at the same time; all bricks of the model in random order; all
in the model's order; the model itself. Slowdowns are medians over rounds, so that a machine with
other work serves as well.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

import numpy as np

from dlbricks_core.backends.host import CALLS, next_to_nothing
from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.statistics import FloatArray, faster_half
from dlbricks_core.importers.options import LoadOptions
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.places import places
from dlbricks_core.measure.contention import Instance, play_together
from dlbricks_core.measure.worker import WorkerSettings, start_of_a_line
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows import Observer, Request
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.loading import load_models
from dlbricks_core.workflows.scenarios.composed import Composed, service_times

WHOLE = "whole"
ROUNDS = 10
"""Rounds of the trial of loads."""

_PASSES = 25
"""Runs of the whole model, or of all its bricks, in each step of a round."""


def main() -> None:
    """Prints both tables for the models that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend")
    parser.add_argument("model", nargs="+")
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the whole model, in all")
    parser.add_argument("--loads", action="store_true", help="try what the others may run")
    arguments = parser.parse_args()
    request = Request.of(arguments.backend, threads=arguments.threads)
    models = load_models(arguments.model, LoadOptions(), Observer()).models
    one = loads if arguments.loads else against_whole
    for model in models:
        try:
            one(model, request, arguments.instances, arguments.threads, arguments.seconds)
        except DLBricksError as error:
            print(f"{model.name}: {error.message}")


class Instances:
    """Instances with networks loaded in each.

    Args:
        request: The backend and its threads.
        count: Number of instances.
        networks: Networks by key, and the kind that each is timed as.
    """

    def __init__(
        self, request: Request, count: int, networks: Mapping[str, tuple[CanonicalModel, str]]
    ) -> None:
        memory = memory_to_use() // count
        settings = WorkerSettings(request.settings, memory_bytes=memory)
        self._open = ExitStack()
        self.all = [
            self._open.enter_context(
                Instance(request.plugin.target, request.backend, settings, cpus)
            )
            for cpus in places(count, request.settings.threads)
        ]
        for each in self.all:
            for key, (network, kind) in networks.items():
                each.load(key, network, kind)

    def __enter__(self) -> Instances:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()


def against_whole(
    model: CanonicalModel, request: Request, count: int, threads: int, seconds: float
) -> None:
    """Prints what the whole model takes beside what its bricks tell."""
    whole = cut_models([model], CutOptions.chosen(None, None, None), request, Observer())
    network = whole.brickset.models[0].whole.model
    alone: list[FloatArray] = []
    beside: list[FloatArray] = []
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore.open(Path(folder) / "contention.sqlite")
        half_of_whole(network, request, count, seconds / 4, alone, beside)
        begin = perf_counter()
        (found,) = service_times([model], request, count, threads, store, Observer())
        took_s = perf_counter() - begin
        half_of_whole(network, request, count, seconds / 4, alone, beside)
    if found.service is None:
        print(f"{model.name}: {found.reason}")
        return
    print(
        f"\n{model.name}, {count} x {threads} on {request.backend.name}: "
        f"slowdown {usual(beside) / usual(alone):.3f}, composed {slowdown(found):.3f}; "
        f"composing took {took_s:.0f} s"
    )
    print(f"{'':16}{'mean':>16}{'usual':>16}{'p50':>16}{'p90':>16}{'p99':>16}")
    row("alone", alone, found.service.while_busy(1))
    row(f"beside {count - 1}", beside, found.service.latency_ms)


def half_of_whole(
    network: CanonicalModel,
    request: Request,
    count: int,
    seconds: float,
    alone: list[FloatArray],
    beside: list[FloatArray],
) -> None:
    """Adds latencies of the whole model by itself, and with all instances busy."""
    with Instances(request, count, {WHOLE: (network, "")}) as instances:
        for busy, found in ((instances.all[:1], alone), (instances.all, beside)):
            played = play_together(busy, [[WHOLE]] * len(busy), seconds)
            found.append(np.concatenate([each.passes_ms for each in played]))


STATISTICS: tuple[Callable[[FloatArray], float], ...] = (
    lambda ms: float(np.mean(ms)),
    lambda ms: float(faster_half(ms)),
    *(lambda ms, percent=percent: float(np.percentile(ms, percent)) for percent in (50, 90, 99)),
)


def row(name: str, measured: Sequence[FloatArray], composed: FloatArray) -> None:
    """Prints statistics of measured latencies, and how far composed ones are off."""
    cells = []
    for statistic in STATISTICS:
        true, guess = statistic(np.concatenate(measured)), statistic(composed)
        cells.append(f"{true:7.2f} {guess / true - 1:+7.1%}")
    print(f"{name:16}{' '.join(cells)}")


def usual(halves: Sequence[FloatArray]) -> float:
    """Mean of the faster half of latencies, in milliseconds."""
    return float(faster_half(np.concatenate(halves)))


def slowdown(found: Composed) -> float:
    """What an inference takes with all instances busy, over what it takes alone."""
    assert found.alone is not None
    assert found.alone.value is not None
    beside = found.beside or found.alone
    return (beside.value or 0.0) / found.alone.value


def loads(model: CanonicalModel, request: Request, count: int, _threads: int, _s: float) -> None:
    """Prints slowdowns of bricks by what the others run, beside that of the whole model."""
    cutting = cut_models([model], CutOptions.chosen(None, None, None), request, Observer())
    (cut,), bricks = cutting.brickset.models, cutting.brickset.bricks
    order = [occurrence.signature for occurrence in cut.occurrences]
    networks = {s: (bricks[s].model, "brick") for s in cut.counts} | {WHOLE: (cut.whole.model, "")}
    networks |= {key: (next_to_nothing(layers), "brick") for key, layers in CALLS.items()}
    rng = np.random.default_rng(0)
    taken: defaultdict[str, list[float]] = defaultdict(list)
    with Instances(request, count, networks) as instances:
        first, others = instances.all[0], instances.all[1:]
        seconds = max(0.5, _PASSES * first.latency_ms(WHOLE) / 1e3)

        def time_bricks(load: Sequence[str]) -> float:
            """Sum over the bricks, timed in the first instance while the others run a load."""
            timed = [*rng.permutation(list(cut.counts)), *CALLS]
            busy = instances.all if load else [first]
            keys = [timed, *[load] * len(others)]
            ms = play_together(
                busy, keys[: len(busy)], 2 * seconds, [True, *[False] * len(others)][: len(busy)]
            )[0].ms
            return total(dict(zip(timed, map(faster_half, ms.T), strict=True)))

        def in_step() -> float:
            """The same with the others on the brick that is being timed."""
            found = {}
            for key in (*cut.counts, *CALLS):
                share = max(0.05, 2 * seconds / len(cut.counts))
                keys = [[key]] * count
                first_ms = play_together(
                    instances.all, keys, share, [True, *[False] * len(others)]
                )[0].ms
                found[key] = float(faster_half(first_ms[:, 0]))
            return total(found)

        def total(usual_ms: Mapping[str, float]) -> float:
            call = start_of_a_line([usual_ms[key] for key in CALLS])
            return call + sum(max(usual_ms[s] - call, 0.0) for s in order)

        def together(busy: Sequence[Instance], keys: Sequence[str]) -> float:
            played = play_together(busy, [keys] * len(busy), seconds)
            return float(faster_half(np.concatenate([each.passes_ms for each in played])))

        steps: Mapping[str, Callable[[], float]] = {
            "whole alone": lambda: together([first], [WHOLE]),
            "whole, all": lambda: together(instances.all, [WHOLE]),
            "bricks alone": lambda: time_bricks([]),
            "beside: same brick": in_step,
            "beside: random order": lambda: time_bricks(list(rng.permutation(order))),
            "beside: model's order": lambda: time_bricks(order),
            "beside: whole model": lambda: time_bricks([WHOLE]),
            "passes alone": lambda: together([first], order),
            "passes, all": lambda: together(instances.all, order),
        }
        for _ in range(ROUNDS):
            for name, step in steps.items():
                taken[name].append(step())
    print(f"\n{model.name}, {count} x {request.settings.threads} on {request.backend.name}")
    print(f"{'':24}{'ms':>9}{'slowdown':>10}{'its error':>10}{'quartiles over rounds':>24}")
    true = float(np.median(np.array(taken["whole, all"]) / taken["whole alone"]))
    for name, ms in taken.items():
        ratios = np.array(ms) / taken[BASES[name.partition(" ")[0].strip(",")]]
        middle, (low, high) = float(np.median(ratios)), np.percentile(ratios, (25, 75))
        print(
            f"{name:24}{np.median(ms):9.3f}{middle:10.3f}{middle / true - 1:+10.1%}"
            f"{f'{low:.3f} to {high:.3f}':>24}"
        )


BASES = {
    "whole": "whole alone",
    "bricks": "bricks alone",
    "beside:": "bricks alone",
    "passes": "passes alone",
}
"""What each line of the trial is compared with, by its first word."""


if __name__ == "__main__":
    main()
