r"""Predicted throughput of instances beside the measured one, offline.

    python benchmarks/predicted_loads.py BACKEND [--rounds 2] [--seconds 4] [--json FILE] MODEL…

Each model is put under load as a whole for every n x m that fits. Its throughput is predicted in
three ways, from a new store each time:

- timed: after the whole model alone was timed in the same run, so that only contention and what a
  loop changes are predicted;
- known: from the atlas, which holds this system if it was surveyed, but no network of the model's
  own family;
- new: likewise, and without this system.

Of each model and n x m the medians over the rounds are printed, and for each way the mean error and
the share of measured throughputs that the 90% intervals hold.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from dial_seconds import new_store, without
from dlbricks_prediction import Contribution, shipped
from dlbricks_serving.scenarios import Scenario
from dlbricks_serving.serving.estimated import estimate_scenario
from dlbricks_serving.serving.measured import Load, measured
from dlbricks_serving.serving.run import LoadRequest, Placement, Row, with_threads
from unlike import kin

from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Target, cut_models
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

_PRECISE = 0.02
"""Precision to which whole models are timed alone."""

Rows = Mapping[Placement, Row]


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("backend")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    request = Request.of(given.backend, threads=1)
    asked = LoadRequest.of("offline")
    models = load_models(given.models, LoadOptions(), Observer()).models
    found = []
    for model in models:
        try:
            found += _compared(model, request, asked, given.rounds, given.seconds)
        except DLBricksError as error:
            print(f"{model.name[:24]:24} failed: {error.message}")
    for way in ("timed", "known", "new"):
        _print_summary(way, [each for each in found if way in each["errors"]])
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), "utf-8")


def _compared(
    model: CanonicalModel, request: Request, asked: LoadRequest, rounds: int, seconds: float
) -> list[dict]:
    """One record for each n x m, printed as well."""
    served: dict[Placement, list[float]] = {each: [] for each in asked.placements}
    every = shipped(request.backend.name)
    with new_store(every) as loads, new_store(every) as store:
        for _ in range(rounds):  # all n x m in turn, and the model alone beside them
            for each in asked.placements:
                own = with_threads(request, each.threads)
                _time_whole(model, own, store)
                served[each].append(_served(model, own, each, seconds, loads))
        ways = {"timed": _rows(model, request, asked, store)}
    atlas = without(shipped(request.backend.name), set(kin(model)))
    elsewhere = [each for each in atlas if each.system.fingerprint != request.fingerprint]
    for name, contributions in (("known", atlas), ("new", elsewhere)):
        ways[name] = _predicted(model, request, asked, contributions)
    records = []
    for place, rates in served.items():
        rate = median(rates)
        record = {"model": model.name, "place": str(place), "measured": rates, "errors": {},
                  "inside": {}}  # fmt: skip
        for way, rows in ways.items():
            answer = rows[place].composed
            if answer is not None:
                low, high = answer.throughput_interval
                record["errors"][way] = answer.throughput / rate - 1
                record["inside"][way] = bool(low <= rate <= high)
        records.append(record)
        cells = " ".join(f"{way} {error:+6.1%}" for way, error in record["errors"].items())
        print(f"{model.name[:24]:24} {place!s:>6} {rate:8.2f}/s  {cells}", flush=True)
    return records


def _time_whole(model: CanonicalModel, request: Request, store: ResultStore) -> None:
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    cutting = cut_models([model], options, request, Observer())
    targets = [Target(each.whole, "model") for each in cutting.brickset.models]
    measure(targets, replace(request, precision=_PRECISE, force=True), store, Observer())


def _served(
    model: CanonicalModel, request: Request, place: Placement, seconds: float, store: ResultStore
) -> float:
    """Samples per second of a load of a whole model."""
    load = Load(Scenario.OFFLINE, None, seconds)
    (taken,) = measured(
        [model], replace(request, force=True), load, place.instances, store, Observer()
    )
    if taken.answer is None:
        raise DLBricksError(taken.reason)
    return taken.answer.throughput


def _predicted(
    model: CanonicalModel, request: Request, asked: LoadRequest, atlas: Sequence[Contribution]
) -> Rows:
    with new_store(atlas) as store:
        return _rows(model, request, asked, store)


def _rows(model: CanonicalModel, request: Request, asked: LoadRequest, store: ResultStore) -> Rows:
    result = estimate_scenario([model], asked, request, store, PREDICTOR)
    return {row.placement: row for row in result.models[0].rows}


def _print_summary(way: str, found: Sequence[Mapping]) -> None:
    if not found:
        return
    off = np.abs([each["errors"][way] for each in found])
    middle = np.median([each["errors"][way] for each in found])
    inside = np.mean([each["inside"][way] for each in found])
    print(
        f"{way}: {len(off)} loads, mean error {off.mean():.1%}, median {middle:+.1%}, "
        f"{np.mean(off <= 0.2):.0%} within ±20%, {inside:.0%} covered"
    )


if __name__ == "__main__":
    main()
