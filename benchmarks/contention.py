"""Accuracy of latencies that are composed from bricks while other instances of a model are busy.

    python benchmarks/contention.py BACKEND MODEL... [--instances 2] [--threads 1] [--loads]

For each model it prints latencies of the whole model, alone and while all instances run it
repeatedly, the same latencies composed from bricks, and the errors. The whole model is timed in two
halves, before and after the bricks. The mean of the faster half represents the usual latency, as in
estimates; the mean determines the throughput.

With --loads, bricks are timed directly while the other instances run various loads, in rounds that
cover all loads: the same brick at the same time; all bricks of the model in random order; all
bricks in the model's order; the model itself. The last lines omit priming by a copy, and then all
preparation (passes). Ratios are medians over rounds.
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
from dlbricks_serving.contention import Instance, play_together
from dlbricks_serving.core_sets import core_sets
from dlbricks_serving.serving.composed import Composed, service_times

from dlbricks_core.backends.burst import CALLS, next_to_nothing, start_of_a_line
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.statistics import FloatArray, faster_half
from dlbricks_core.importers.base import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import WorkerSettings
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import memory_to_use

WHOLE = "whole"
ROUNDS = 10
"""Number of rounds in the trial of loads."""

_PASSES = 25
"""Number of runs of the whole model, or of all its bricks, in each step of a round."""


def main() -> None:
    """Prints both tables for the named models."""
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
        networks: Networks by key, with the kind of each.
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
            for cpus in core_sets(count, request.settings.threads)
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
    """Prints latencies of the whole model beside those composed from bricks."""
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
    """Adds latencies of the whole model, alone and with all instances busy."""
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
    """Prints statistics of measured latencies, and the errors of composed ones."""
    cells = []
    for statistic in STATISTICS:
        true, guess = statistic(np.concatenate(measured)), statistic(composed)
        cells.append(f"{true:7.2f} {guess / true - 1:+7.1%}")
    print(f"{name:16}{' '.join(cells)}")


def usual(halves: Sequence[FloatArray]) -> float:
    """Mean of the faster half of latencies, in milliseconds."""
    return float(faster_half(np.concatenate(halves)))


def slowdown(found: Composed) -> float:
    """Latency with all instances busy, relative to the latency alone."""
    assert found.alone is not None
    assert found.alone.value is not None
    beside = found.beside or found.alone
    return (beside.value or 0.0) / found.alone.value


class Trial:
    """Steps of a trial on loaded instances; each returns milliseconds for the whole model.

    Args:
        instances: Instances with the whole model, and each brick twice: as ``"brick"``, which a
            copy primes where the backend wants that, and as a network that no copy primes.
        order: Signatures of the bricks in the model's order.
    """

    def __init__(self, instances: Sequence[Instance], order: Sequence[str]) -> None:
        self._all = instances
        self._order = order
        self._rng = np.random.default_rng(0)
        self._seconds = max(0.5, _PASSES * instances[0].latency_ms(WHOLE) / 1e3)
        self.steps: Mapping[str, Callable[[], float]] = {
            "whole alone": lambda: self.together(1, [WHOLE]),
            "whole, all": lambda: self.together(len(self._all), [WHOLE]),
            "bricks alone": lambda: self.bricks([]),
            "bricks, same brick": self.in_step,
            "bricks, random order": lambda: self.bricks([*self._rng.permutation(order)]),
            "bricks, model's order": lambda: self.bricks(order),
            "bricks, whole model": lambda: self.bricks([WHOLE]),
            "unprimed alone": lambda: self.bricks([], PLAIN),
            "unprimed, model's order": lambda: self.bricks(order, PLAIN),
            "passes alone": lambda: self.together(1, order),
            "passes, all": lambda: self.together(len(self._all), order),
        }

    def together(self, count: int, keys: Sequence[str]) -> float:
        """Usual duration of a pass over networks in several instances at once, in milliseconds."""
        played = play_together(self._all[:count], [keys] * count, self._seconds)
        return float(faster_half(np.concatenate([each.passes_ms for each in played])))

    def bricks(self, load: Sequence[str], prefix: str = "") -> float:
        """Sum over the bricks, timed in the first instance while the others run a load."""
        unique = list(dict.fromkeys(self._order))
        timed = [prefix + each for each in unique]
        ms = self._timed([*timed, *CALLS], load, 2 * self._seconds)
        return self._total(dict(zip([*unique, *CALLS], ms, strict=True)))

    def in_step(self) -> float:
        """Sum over the bricks, timed while the other instances run the same brick."""
        keys = [*dict.fromkeys(self._order), *CALLS]
        seconds = max(0.05, 2 * self._seconds / len(keys))
        return self._total({key: self._timed([key], [key], seconds)[0] for key in keys})

    def _timed(self, keys: Sequence[str], load: Sequence[str], seconds: float) -> list[float]:
        """Usual latency of each network in the first instance, beside a load or alone."""
        busy = self._all if load else self._all[:1]
        others = len(busy) - 1
        sequences, prepared = [keys, *[load] * others], [True, *[False] * others]
        played = play_together(busy, sequences, seconds, prepared)[0]
        return [float(faster_half(each)) for each in played.ms.T]

    def _total(self, usual_ms: Mapping[str, float]) -> float:
        call = start_of_a_line([usual_ms[key] for key in CALLS])
        return call + sum(max(usual_ms[s] - call, 0.0) for s in self._order)


PLAIN = "plain "
"""Prefix of the keys of bricks that no copy primes."""


def loads(model: CanonicalModel, request: Request, count: int, _threads: int, _s: float) -> None:
    """Prints slowdowns of bricks for each load, beside the slowdown of the whole model."""
    cutting = cut_models([model], CutOptions.chosen(None, None, None), request, Observer())
    (cut,), bricks = cutting.brickset.models, cutting.brickset.bricks
    networks = {s: (bricks[s].model, "brick") for s in cut.counts}
    networks |= {PLAIN + s: (bricks[s].model, "") for s in cut.counts}
    networks |= {key: (next_to_nothing(layers), "brick") for key, layers in CALLS.items()}
    networks[WHOLE] = cut.whole.model, ""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    with Instances(request, count, networks) as instances:
        trial = Trial(instances.all, [occurrence.signature for occurrence in cut.occurrences])
        for _ in range(ROUNDS):
            for name, step in trial.steps.items():
                taken[name].append(step())
    ms = {name: np.array(each) for name, each in taken.items()}
    true = float(np.median(ms["whole, all"] / ms["whole alone"]))
    print(f"\n{model.name}, {count} x {request.settings.threads} on {request.backend.name}")
    print(f"{'':24}{'ms':>9}{'to whole':>10}{'slowdown':>10}{'its error':>10}{'quartiles':>17}")
    for name, each in ms.items():
        what = name.partition(" ")[0].strip(",")
        like = "whole alone" if name.endswith("alone") else "whole, all"
        off = float(np.median(each / ms[like])) - 1
        ratios = each / ms[f"{what} alone"]
        middle, (low, high) = float(np.median(ratios)), np.percentile(ratios, (25, 75))
        print(
            f"{name:24}{np.median(each):9.3f}{off:+10.1%}{middle:10.3f}{middle / true - 1:+10.1%}"
            f"{f'{low:.3f} to {high:.3f}':>17}"
        )


if __name__ == "__main__":
    main()
