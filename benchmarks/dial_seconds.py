r"""Seconds and errors of the dial, compared with timing each whole model to equal precision.

For each precision, a new store: the dial's wall clock until all estimates are that precise
(rewriting by the backend, planning and predicting included), the errors of its estimates, and how
much longer it takes to time each whole model to ±5%. The reference latencies are those of the whole
models, timed in the same run to ±2%.

    python benchmarks/dial_seconds.py NAME THREADS [--apart] MODEL…

With --apart, the atlas holds no network of the models' own families.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from unittest import mock

import numpy as np
from dlbricks_prediction import Contribution, shipped
from dlbricks_prediction import training_data as known
from unlike import kin

from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.run import run_bricks
from dlbricks_core.figures.figure import Measured
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Target, cut_models
from dlbricks_core.measure.measuring import measure, open_worker
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

PRECISIONS = (0.2, 0.1, 0.07)
_BASELINE, _TRUTH = 0.05, 0.02


def without(atlas: Sequence[Contribution], families: set[str]) -> list[Contribution]:
    """The atlas without networks that were cut from models of some families."""
    return [
        each.only([i for i, g in enumerate(each.groups) if families.isdisjoint(g.split(","))])
        for each in atlas
    ]


@contextmanager
def new_store(atlas: Sequence[Contribution]) -> Iterator[ResultStore]:
    """A store without measurements. Besides it, only an atlas is known."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultStore.open(Path(folder) / "new.sqlite") as store,
        mock.patch.object(known, "shipped", return_value=tuple(atlas)),
    ):
        yield store


def turned(
    models: Sequence[CanonicalModel], request: Request, atlas: Sequence[Contribution]
) -> tuple[RunResult, float]:
    """The dial's result in a new store, and the seconds that it took."""
    with new_store(atlas) as store:
        begin = perf_counter()
        options, observer = CutOptions.chosen(None, None, LEARNED_COMPOSER), Observer()
        cutting = cut_models(models, options, request, observer)
        result = run_bricks(cutting, request, store, observer, end_to_end=False, few=True)
        return result, perf_counter() - begin


def wholes(models: Sequence[CanonicalModel], request: Request) -> tuple[Mapping[str, float], float]:
    """Latency of each whole model in milliseconds, and the seconds of timing them.

    As for the dial, the seconds include the start of the framework.
    """
    cut = cut_models(models, CutOptions.chosen(None, None, LEARNED_COMPOSER), request, Observer())
    found = {}
    targets = [Target(each.whole, "model") for each in cut.brickset.models]
    begin = perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultStore.open(Path(folder) / "wholes.sqlite") as store,
        open_worker(request) as worker,
    ):
        outcome = measure(targets, request, store, Observer(), worker=worker)
        seconds = perf_counter() - begin
    names = {each.whole.signature: each.model.name for each in cut.brickset.models}
    for key, measurement in outcome.measurements.items():
        if not measurement.failure:
            figure = Measured.of(measurement, request.protocol)
            found[names[key.subject.signature]] = figure.value
    return found, seconds


def main(backend: str, threads: str, *names: str) -> None:
    """Prints a line for each precision."""
    begin = perf_counter()
    sources = [name for name in names if name != "--apart"]
    models = load_models(sources, LoadOptions(), Observer()).models
    seconds_taken = perf_counter() - begin
    print(
        f"{backend}, {threads} threads: importing {len(models)} models took {seconds_taken:.1f} s"
    )
    request = Request.of(backend, threads=int(threads))
    atlas = shipped(backend)
    if "--apart" in names:
        atlas = without(atlas, {each for model in models for each in kin(model)})
    _, seconds = wholes(models, replace(request, precision=_BASELINE))
    truth, _ = wholes(models, replace(request, precision=_TRUTH))
    for precision in PRECISIONS:
        result, spent = turned(models, replace(request, precision=precision), atlas)
        report(precision, result, spent, seconds, truth)


def report(
    precision: float, result: RunResult, spent: float, wholes_s: float, truth: Mapping[str, float]
) -> None:
    """Prints the results of the dial at one precision."""
    errors, inside = {}, []
    for each in result.models:
        name, found = each.cut.model.name, each.estimate
        if name in truth and found.value is not None and found.interval is not None:
            errors[name] = found.value / truth[name] - 1
            inside.append(found.interval[0] <= truth[name] <= found.interval[1])
    off = np.abs([*errors.values()])
    assert result.adaptive is not None
    print(
        f"±{precision:.0%}: {spent:.1f} s; whole models {wholes_s:.1f} s, {wholes_s / spent:.1f} "
        f"times as long; {result.adaptive.timed} bricks, {result.adaptive.wholes} models timed\n"
        f"   {len(off)} models: mean error {off.mean():.1%}, {np.mean(off <= precision):.0%} "
        f"within ±{precision:.0%}, {np.mean(inside):.0%} within their intervals"
    )
    worst = sorted(errors.items(), key=lambda pair: -abs(pair[1]))[:8]
    print("   " + ", ".join(f"{name} {error:+.0%}" for name, error in worst), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
