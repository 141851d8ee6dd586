r"""Observes a quantity of whole models, from which it is predicted for others without a run.

    python benchmarks/whole_models.py peak-memory onnxruntime onnx: mxnet: --least 16
    python benchmarks/whole_models.py peak-memory onnxruntime mxnet:resnet18_v1 --batch 8
    python benchmarks/whole_models.py peak-memory onnxruntime llm:gpt2 --dim batch=1 \
        --dim sequence=1 --dim past=128
    python benchmarks/whole_models.py peak-memory onnxruntime

Each model is observed as by `dlbricks estimate MODEL --measure --quantity NAME --end-to-end`, but
without its bricks, and added to the file of the package. Models in the file are not observed again.
With --least, values below it are left out: relative errors of the smallest count as much as any.
In the end, and without a MODEL at once, each family is predicted from all others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from dlbricks_quantities.shipped import FOLDER, ObservedModel, WholeModels, whole_models

from dlbricks_core.bricks import CutModel
from dlbricks_core.bricks.families import family_of
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


def observed(model: CanonicalModel, request: Request) -> float | None:
    """Value of the quantity of a whole model, or nothing if it fails."""
    target = Target(CutModel(model, (), model).whole, "model")
    with TemporaryDirectory() as folder, ResultStore.open(f"{folder}/results.sqlite") as store:
        found = measure([target], request, store, Observer())
    for key, measurement in found.measurements.items():
        if key.quantity == request.quantity:
            return float(median(each.values[0] for each in measurement.observations))
    print(f"{model.name} failed: {'; '.join(found.failures.values())}", flush=True)
    return None


def empty(request: Request) -> WholeModels:
    """A file without models."""
    assert request.metric is not None
    setup, system = request.setup, request.target
    return WholeModels(
        quantity=request.quantity.name,
        metric_version=request.metric.version,
        backend=setup.backend,
        version=setup.version,
        options=setup.options,
        threads=setup.threads,
        system=f"{system.cpu} ({system.microarchitecture})",
        date="",
        least=tuple(request.metric.least),
        models=(),
    )


def judge(held: WholeModels, above: float) -> None:
    """Prints how far each family is off, predicted from all others."""
    errors, inside, large = [], [], []
    for family in sorted({each.family for each in held.models}):
        regression = held.without(family).regression
        for each in held.models:
            if regression is None or each.family != family:
                continue
            figure = regression.predict(np.array(each.sizes), 0.0)
            low, high = np.percentile(figure.draws, (5, 95))
            errors.append(figure.value / each.value - 1)
            inside.append(low <= each.value <= high)
            large.append(each.value >= above)
            beyond = "" if regression.tells_of(np.array(each.sizes)) else "  larger than others"
            print(
                f"{each.name:28} {each.value:9.1f} {figure.value:9.1f} {errors[-1]:+7.1%}{beyond}"
            )
    off = np.abs(errors)
    for told, chosen in ("all", np.full(len(off), True)), (f"from {above:g} on", np.array(large)):
        print(
            f"{held.backend}, {told}: {chosen.sum()} models, each family predicted from the "
            f"others: mean error {off[chosen].mean():.1%}, "
            f"{np.mean(off[chosen] <= 0.1):.0%} within 10%, "
            f"{np.mean(np.array(inside)[chosen]):.0%} covered by 90% intervals"
        )


def main() -> None:
    """Observes models, adds them to the file, and judges all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("quantity")
    parser.add_argument("backend")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--least", type=float, default=0.0, help="smallest value that is kept")
    parser.add_argument("--above", type=float, default=100.0, help="value from which on to judge")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    asked = parser.parse_args()
    request = replace(Request.of(asked.backend, threads=1, quantity=asked.quantity), precision=None)
    held = next(iter(whole_models(asked.quantity, asked.backend)), empty(request))
    dims = {name: int(size) for name, _, size in (each.partition("=") for each in asked.dim)}
    chosen = (
        [f"batch {asked.batch}"] if asked.batch else [f"{n} {size}" for n, size in dims.items()]
    )
    models: Sequence[CanonicalModel] = ()
    if asked.models:
        options = LoadOptions(dims=dims, batch=asked.batch)
        models = load_models(asked.models, options, Observer()).models
    for model in models:
        name = ", ".join([model.name, *chosen])
        if request.metric is None or name in {each.name for each in held.models}:
            continue
        value = observed(model, request)
        if value is not None:
            print(f"{name:28} {value:9.1f}", flush=True)
        if value is not None and value >= asked.least:
            sizes = tuple(round(float(each), 4) for each in request.metric.sizes(model))
            seen = ObservedModel(name, family_of(model), sizes, round(value, 2))
            today = datetime.now(UTC).date().isoformat()
            held = replace(held, date=today, models=(*held.models, seen))
            FOLDER.mkdir(exist_ok=True)
            held.write(FOLDER / f"{asked.quantity}-{asked.backend}.json")
    judge(held, asked.above)


if __name__ == "__main__":
    main()
