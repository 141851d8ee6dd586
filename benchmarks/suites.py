r"""Compares estimates after a suite's round trip to another store with local ones.

    python benchmarks/suites.py onnxruntime 1 onnx: mxnet: --budget 8
    python benchmarks/suites.py onnxruntime 1 onnx: mxnet: --same

Each model is timed as a whole and by its bricks, side by side, for the local estimate. Then a suite
of the model goes to a place with a store of its own, where its bricks are timed again, and the
results come back. Then the first is done once more: the machine drifts meanwhile, so the estimate
after the journey is compared with the mean of the whole before and after. The output has a line for
each model, and one for all: the errors of both estimates, and how far the whole has drifted.

With --same, the other place has the local samples, so that only the round trip can make a
difference. The line says whether the estimates are equal to the last bit, and how many bricks had
to be timed there because they differ. Disturbances of the machine do not matter then.

Factories of the development corpus: run it in tests/corpus, and name torch:torch_networks:vit.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from dlbricks_records.results_files import read_results
from dlbricks_suite.results import written_results
from dlbricks_suite.timing import bench
from dlbricks_suite.writing import generate

from dlbricks_core.commands.options.measured_places import place_of
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.run import run
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@dataclass(frozen=True)
class Journey:
    """A model's estimates.

    Attributes:
        name: Name of the model.
        local: Estimate with what was timed beside the whole model.
        travelled: Estimate with what was timed elsewhere.
        again: As ``local``, timed after the journey; ``None`` with --same.
        anew: Number of bricks that were timed there.
    """

    name: str
    local: ModelResult
    travelled: ModelResult
    again: ModelResult | None
    anew: int

    @property
    def errors(self) -> tuple[float, float]:
        """Errors of the local estimate and of the travelled one, relative to the measured whole."""
        before, after = self._wholes
        values = self.local.estimate.value, self.travelled.estimate.value
        assert None not in values
        return values[0] / before - 1, values[1] / math.sqrt(before * after) - 1

    @property
    def drift(self) -> float:
        """Change of the measured whole from before the journey until after it."""
        before, after = self._wholes
        return after / before - 1

    @property
    def _wholes(self) -> tuple[float, float]:
        """Measured latency of the whole before and after the journey, in milliseconds."""
        assert self.again is not None
        one, other = self.local.measured, self.again.measured
        assert one is not None
        assert other is not None
        return one.value, other.value

    @property
    def same(self) -> bool:
        """Whether both estimates are equal to the last bit."""
        return self.local.estimate == self.travelled.estimate


def journeys(
    models: list[CanonicalModel], request: Request, folder: Path, *, same: bool
) -> Iterator[Journey]:
    """Estimates of each model, here and after a journey."""
    for number, model in enumerate(models):
        place = folder / str(number)
        here = _local(model, request, place / "here.sqlite", whole=not same)
        generate([model], None, place / "suite", 0, Observer())
        results = place / "results"
        if same:
            shutil.copy(place / "here.sqlite", place / "results.partial")
        with written_results(results) as store:
            there = bench(place / "suite", request, store, Observer())
        travelled = _estimated(model, request, results)
        again = None if same else _local(model, request, place / "again.sqlite", whole=True)
        yield Journey(model.name, here, travelled, again, there.ledger.measured)


def _local(model: CanonicalModel, request: Request, path: Path, *, whole: bool) -> ModelResult:
    """Estimate from bricks that are timed here, beside the whole if asked."""
    cut = CutOptions.chosen(None, None, None)
    with ResultStore.open(path) as store:
        run([model], cut, request, store, Observer(), end_to_end=whole)
        return estimate([model], None, request, store, predictor=PREDICTOR).models[0]


def _estimated(model: CanonicalModel, request: Request, results: Path) -> ModelResult:
    """Estimate from results alone: the backend is not asked."""
    with read_results([results]) as store:
        backend = request.backend.name
        place = place_of(store, backend, protocol=request.protocol)
        asked = Request.of(backend, measured=place.setup).on(place.system)
        asked = replace(asked, runs=request.runs, precision=request.precision)
        return estimate([model], None, asked, store, predictor=PREDICTOR).models[0]


def main(backend: str, threads: int, names: list[str], budget_s: float, *, same: bool) -> None:
    """Prints a line for each model, and one for all."""
    how = {"runs": 3} if same else {"budget_s": budget_s}
    request = Request.of(backend, threads=threads, **how)
    loaded = load_models(names, LoadOptions(), Observer())
    for failure in loaded.failures:
        print(f"{failure.subject}: {failure.reason}")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for each in journeys(loaded.models, request, Path(folder), same=same):
            found.append(each)
            print(_same(each) if same else _compared(each), flush=True)
    if same:
        equal = sum(each.same for each in found)
        print(f"{backend}, {threads}: {equal} of {len(found)} estimates are equal to the last bit")
        return
    local, travelled = np.abs([each.errors for each in found]).mean(axis=0)
    drift = np.abs([each.drift for each in found]).mean()
    print(
        f"{backend}, {threads}: {len(found)} models: local {local:.2%} off, "
        f"after the journey {travelled:.2%}; wholes drifted by {drift:.2%}"
    )


def _same(each: Journey) -> str:
    value = each.travelled.estimate.value
    equal = "equal" if each.same else f"not equal: {value} ms, {each.local.estimate.value} ms here"
    return f"{each.name}: {equal}; {each.anew} bricks timed there"


def _compared(each: Journey) -> str:
    local, travelled = each.errors
    return (
        f"{each.name}: local {local:+.1%} off, after the journey {travelled:+.1%}; "
        f"{each.drift:+.1%} drift"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("backend")
    parser.add_argument("threads", type=int)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--budget", type=float, default=20, help="seconds of timing in each place")
    parser.add_argument("--same", action="store_true", help="the other place has the samples")
    given = parser.parse_args()
    main(given.backend, given.threads, given.models, given.budget, same=given.same)
