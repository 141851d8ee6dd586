r"""Compares `similar` with the dial: seconds and errors of each, in one run.

    python benchmarks/dial_against.py BACKEND THREADS [--json FILE] [--budget SECONDS] [MODEL…]

Each way of estimating begins with an empty store, so that nothing is shared. Its seconds are those
of the wall clock. They include starting the framework, rewriting, loading, planning, predicting and
timing, but not importing the models. All whole models are timed before and after each way. The mean
of both is the reference of its estimates, so that drift of the machine does not count. From ±5%
down the dial times all bricks of the executed graph, like the composer `segmented`. So its rows
belong to the dial as well. The last column gives the dial's error at the seconds of a row,
interpolated between the nearest stops.

Without a MODEL it takes the development corpus. The atlas contains these models, so networks that
were cut from their families are left out of it, unless --known is given.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np
from dial_seconds import turned, wholes, without
from dlbricks_prediction import Contribution, shipped
from unlike import kin

from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.run import run
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

CORPUS = (
    "onnx:",
    "mxnet:",
    *(f"torch:torch_networks:{name}" for name in
      ("resnet50", "vit", "swin", "bert", "gpt2_decode", "llama", "whisper_encoder", "unet", "lstm",
       "detr", "yolo")),
)  # fmt: skip
"""The development corpus. Its PyTorch networks are found if Python's path has tests/corpus."""

WHOLE_RUNS = 10
"""Runs of each whole model before and after each way."""

BASELINE = 0.05
"""Precision to which whole models are timed, as the baseline for the savings of estimates."""


@dataclass(frozen=True)
class Way:
    """A way of estimating.

    Attributes:
        name: Its name: ``dial``, or that of a composer.
        precision: Half-width of the 90% intervals to reach, relative to the latency.
    """

    name: str
    precision: float

    @property
    def of_dial(self) -> bool:
        """Whether the way is a stop of the dial."""
        return self.name in ("dial", "segmented")


WAYS = (
    *(Way("dial", precision) for precision in (0.2, 0.1, 0.07)),
    *(Way("segmented", precision) for precision in (0.05, 0.02)),
    *(Way("similar", precision) for precision in (0.1, 0.05)),
)


@dataclass(frozen=True)
class Found:
    """Result of a way of estimating.

    Attributes:
        way: The way.
        seconds: Seconds of the wall clock.
        timing_s: Part of these seconds in which networks were loaded and ran, or the dial planned.
        networks: Number of networks that were timed.
        errors: Relative error of each model's estimate, by name.
        inside: Whether each model's 90% interval holds the measured latency, by name.
        missing: Models without a whole estimate or without a measured latency.
    """

    way: Way
    seconds: float
    timing_s: float
    networks: int
    errors: Mapping[str, float]
    inside: Mapping[str, bool]
    missing: Sequence[str]

    @property
    def mean_error(self) -> float:
        """Mean absolute error, relative."""
        return float(np.mean(np.abs([*self.errors.values()])))

    def within(self, share: float) -> float:
        """Share of the models with a smaller error."""
        return float(np.mean(np.abs([*self.errors.values()]) <= share))

    @property
    def covered(self) -> float:
        """Share of the models whose interval holds the measured latency."""
        return float(np.mean([*self.inside.values()]))


def taken(
    way: Way, models: Sequence[CanonicalModel], request: Request, atlas: Sequence[Contribution]
) -> tuple[RunResult, float]:
    """Result of a way from an empty store, and the seconds that it took."""
    request = replace(request, precision=way.precision)
    if way.name == "dial":
        return turned(models, request, atlas)
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultStore.open(Path(folder) / "way.sqlite") as store,
    ):
        begin = perf_counter()
        cut = CutOptions.chosen(None, None, way.name)
        result = run(models, cut, request, store, Observer(), end_to_end=False)
        return result, perf_counter() - begin


def judged(way: Way, result: RunResult, seconds: float, truth: Mapping[str, float]) -> Found:
    """Errors of a way's estimates."""
    errors, inside, missing = {}, {}, []
    for each in result.models:
        name, estimate = each.cut.model.name, each.estimate
        ms, ends = estimate.value, estimate.interval
        if name not in truth or ms is None or ends is None or estimate.partial:
            missing.append(name)
            continue
        errors[name] = ms / truth[name] - 1
        inside[name] = bool(ends[0] <= truth[name] <= ends[1])
    effort = result.effort
    return Found(
        way, seconds, effort.seconds["brick"], effort.networks["brick"], errors, inside, missing
    )


def at_equal_cost(seconds: float, stops: Sequence[Found]) -> float | None:
    """Mean error of the dial at a number of seconds; ``None`` beyond its first and last stop."""
    ordered = sorted(stops, key=lambda each: each.seconds)
    for low, high in pairwise(ordered):
        if low.seconds <= seconds <= high.seconds:
            ends = np.log([low.seconds, high.seconds])
            return float(np.interp(np.log(seconds), ends, [low.mean_error, high.mean_error]))
    return None


def data(found: Sequence[Found], request: Request, baseline_s: float) -> dict[str, object]:
    """All results, for a JSON file."""
    stops = [each for each in found if each.way.of_dial]
    return {
        "system": request.system.to_dict(),
        "backend": request.setup.backend,
        "version": request.setup.version,
        "threads": request.setup.threads,
        "whole_models_s": baseline_s,
        "ways": [
            {
                "name": each.way.name,
                "precision": each.way.precision,
                "seconds": each.seconds,
                "timing_s": each.timing_s,
                "networks": each.networks,
                "mean_error": each.mean_error,
                "covered": each.covered,
                "dial_at_equal_cost": at_equal_cost(each.seconds, stops),
                "errors": dict(each.errors),
                "missing": list(each.missing),
            }
            for each in found
        ],
    }


def line(found: Found, stops: Sequence[Found]) -> str:
    """A row of the table."""
    equal = None if found.way.of_dial else at_equal_cost(found.seconds, stops)
    beside = "beyond it" if equal is None else f"{equal:.1%}"
    return (
        f"{found.way.name:<10}±{found.way.precision:<5.0%}{found.seconds:9.1f}"
        f"{found.timing_s:9.1f}{found.networks:9}{found.mean_error:9.1%}{found.within(0.1):9.0%}"
        f"{found.covered:9.0%}  {'' if found.way.of_dial else beside}"
    )


def main() -> None:
    """Prints a row for each way, and writes a JSON file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("backend")
    parser.add_argument("threads", type=int)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--budget", type=float, default=600.0, help="most seconds of each way")
    parser.add_argument("--known", action="store_true", help="leave nothing out of the atlas")
    asked = parser.parse_args()
    loaded = load_models(asked.models or CORPUS, LoadOptions(), Observer())
    models = loaded.models
    for failure in loaded.failures:
        print(f"{failure.subject} is left out: {failure.reason}")
    request = Request.of(asked.backend, threads=asked.threads, budget_s=asked.budget)
    atlas = shipped(asked.backend)
    if not asked.known:
        atlas = tuple(without(atlas, {each for model in models for each in kin(model)}))
    once = replace(request, precision=None, budget_s=None, runs=WHOLE_RUNS)
    _, baseline_s = wholes(models, replace(request, precision=BASELINE))
    print(
        f"{request.setup.backend} {request.setup.version}, threads: {asked.threads}; "
        f"{len(models)} models; whole models to ±{BASELINE:.0%}: {baseline_s:.1f} s"
    )
    found: list[Found] = []
    before, _ = wholes(models, once)
    for way in WAYS:
        result, seconds = taken(way, models, request, atlas)
        after, _ = wholes(models, once)
        truth = {name: (before[name] + after[name]) / 2 for name in before.keys() & after.keys()}
        found.append(judged(way, result, seconds, truth))
        before = after
        print(f"{way.name} ±{way.precision:.0%}: {seconds:.1f} s", flush=True)
    heads = "seconds", "timing s", "networks", "error", "in ±10%", "covered"
    print(f"\n{'':16}{''.join(f'{head:>9}' for head in heads)}  dial then")
    stops = [each for each in found if each.way.of_dial]
    for each in found:
        print(line(each, stops))
    for name in sorted({name for each in found for name in each.missing}):
        ways = [f"{e.way.name} ±{e.way.precision:.0%}" for e in found if name in e.missing]
        print(f"{name} does not count in: {', '.join(ways)}")
    if asked.json:
        asked.json.write_text(json.dumps(data(found, request, baseline_s), indent=1) + "\n")


if __name__ == "__main__":
    main()
