r"""Errors of estimates on this machine, as if the atlas lacked it, without probes and with some.

    python benchmarks/new_system.py NAME THREADS [--apart] [--asked] MODEL…

For each number of probes and in a new store, probes are timed and the models estimated. Nothing
else of this machine is known. The reference latencies are those of the whole models, timed to ±3%
before and after the probes; the mean of both counts, and how far they are apart is printed. Where
some are far apart, the machine was disturbed: with two threads, small layers take twice as long.
With --apart, the atlas holds no network of a model's own family either. With --asked, probes are
chosen for these models, and among their bricks; else for models in general.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
from dial_seconds import new_store, wholes, without
from dlbricks_prediction import Contribution, shipped
from dlbricks_survey.characterization import characterize
from unlike import kin

from dlbricks_core.estimation.rates import RUNS
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer

PROBES = (0, 10, 30)
_TRUTH = 0.03


def estimated(
    models: Sequence[CanonicalModel],
    probes: int,
    request: Request,
    atlas: Sequence[Contribution],
    asked: Sequence[CanonicalModel],
) -> tuple[RunResult, float]:
    """Estimates after some probes, in a new store, and the seconds that the probes took."""
    with new_store(atlas) as store:
        begin = perf_counter()
        if probes:
            characterize(
                asked, probes, replace(request, runs=RUNS, precision=None), store, Observer()
            )
        seconds = perf_counter() - begin
        return estimate(models, None, request, store, PREDICTOR), seconds


def report(probes: int, seconds: float, result: RunResult, truth: Mapping[str, float]) -> None:
    """Prints the figures for one number of probes."""
    errors, inside, widths = [], [], []
    for each in result.models:
        name, found = each.cut.model.name, each.estimate
        if name in truth and found.value is not None and found.interval is not None:
            low, high = found.interval
            errors.append(found.value / truth[name] - 1)
            inside.append(low <= truth[name] <= high)
            widths.append((high - low) / (high + low))
    off = np.abs(errors)
    print(
        f"{probes} probes, {seconds:.1f} s: {len(off)} models, mean error {off.mean():.1%}, "
        f"median {np.median(errors):+.1%}, {np.mean(off <= 0.2):.0%} within ±20%, "
        f"{np.mean(inside):.0%} covered, ±{np.median(widths):.0%}",
        flush=True,
    )


def main(backend: str, threads: str, *names: str) -> None:
    """Prints a line for each number of probes."""
    sources = [name for name in names if not name.startswith("--")]
    models = load_models(sources, LoadOptions(), Observer()).models
    request = Request.of(backend, threads=int(threads))
    atlas = [c for c in shipped(backend) if c.system.fingerprint != request.fingerprint]
    if "--apart" in names:
        atlas = without(atlas, {each for model in models for each in kin(model)})
    print(f"{backend}, {threads} threads, from {len(atlas)} contributions of other systems")
    asked = models if "--asked" in names else []
    precise = replace(request, precision=_TRUTH)
    before, _ = wholes(models, precise)
    for probes in PROBES:
        result, seconds = estimated(models, probes, request, atlas, asked)
        after = wholes(models, precise)[0] if probes else before
        ratios = {name: after[name] / ms for name, ms in before.items() if name in after}
        low, middle, high = np.percentile([*ratios.values()], (5, 50, 95))
        print(
            f"wholes: {middle:.3f} times as long after the probes "
            f"(90% of them: {low:.2f} to {high:.2f} times)"
        )
        truth = {name: before[name] * ratio**0.5 for name, ratio in ratios.items()}
        report(probes, seconds, result, truth)
        before = after


if __name__ == "__main__":
    main(*sys.argv[1:])
