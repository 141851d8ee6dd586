r"""Compares estimates after a suite's round trip to another store with local ones.

    python benchmarks/suites.py onnxruntime 1 onnx: mxnet: --budget 8
    python benchmarks/suites.py onnxruntime 1 onnx: mxnet: --same

Each model is timed as a whole and by its bricks, side by side, for the local estimate. Then a suite
of the model goes to a place with a store of its own, where its bricks are timed again, and the
results come back. The output has a line for each model, and one for all: the errors of both
estimates.

With --same, the other place has the local samples, so that only the round trip can make a
difference. The line tells whether the estimates are equal to the last bit, and how many bricks had
to be timed there because they differ. Disturbances of the machine do not matter then.

Factories of the development corpus: run it in tests/corpus, and name torch:torch_networks:vit.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import (
    PREDICTOR,
    CutOptions,
    LoadOptions,
    ModelResult,
    Observer,
    Request,
    bench,
    estimate,
    generate,
    load_models,
    run,
)
from dlbricks_core.workflows.carried import place_of, read_results, written_results


@dataclass(frozen=True)
class Journey:
    """A model's estimates.

    Attributes:
        name: Name of the model.
        local: Estimate with what was timed beside the whole model.
        travelled: Estimate with what was timed elsewhere.
        anew: Number of bricks that were timed there.
    """

    name: str
    local: ModelResult
    travelled: ModelResult
    anew: int

    @property
    def errors(self) -> tuple[float, float]:
        """Errors of both estimates, relative to the measured latency of the whole."""
        measured = self.local.measured
        values = self.local.estimate.value, self.travelled.estimate.value
        assert measured is not None
        one, other = (value / measured.value - 1 for value in values if value is not None)
        return one, other

    @property
    def same(self) -> bool:
        """Whether both estimates are equal to the last bit."""
        return self.local.estimate == self.travelled.estimate


def journeys(
    models: list[CanonicalModel], request: Request, folder: Path, *, same: bool
) -> Iterator[Journey]:
    """Estimates of each model, here and after a journey."""
    cut = CutOptions.chosen(None, None, None)
    for number, model in enumerate(models):
        place = folder / str(number)
        with ResultStore.open(place / "here.sqlite") as store:
            run([model], cut, request, store, Observer(), end_to_end=not same)
            here = estimate([model], None, request, store, predictor=PREDICTOR)
        generate([model], None, place / "suite", 0, Observer())
        results = place / "results"
        if same:
            shutil.copy(place / "here.sqlite", place / "results.partial")
        with written_results(results) as store:
            there = bench(place / "suite", request, store, Observer())
        yield Journey(
            model.name, here.models[0], _estimated(model, request, results), there.outcome.measured
        )


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
    print(
        f"{backend}, {threads}: {len(found)} models: local {local:.2%} off, "
        f"after the journey {travelled:.2%}"
    )


def _same(each: Journey) -> str:
    value = each.travelled.estimate.value
    equal = "equal" if each.same else f"not equal: {value} ms, {each.local.estimate.value} ms here"
    return f"{each.name}: {equal}; {each.anew} bricks timed there"


def _compared(each: Journey) -> str:
    local, travelled = each.errors
    return f"{each.name}: local {local:+.1%} off, after the journey {travelled:+.1%}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("backend")
    parser.add_argument("threads", type=int)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--budget", type=float, default=20, help="seconds of timing in each place")
    parser.add_argument("--same", action="store_true", help="the other place has the samples")
    given = parser.parse_args()
    main(given.backend, given.threads, given.models, given.budget, same=given.same)
