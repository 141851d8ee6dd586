r"""Fits how warm layers differ from cold ones, to small networks in a loop.

    python benchmarks/predictor/warmth.py [--measure TURNS]

With ``--measure``, the networks of ``benchmarks/networks/small.py`` are timed here as in the plain
scripts, one thread, and `warmth.csv` beside this file keeps the least median of all turns. This
system's reference data must be shipped. The networks' layers are then predicted from these data.
Two numbers of each backend minimize the mean error of the logarithms of the networks' sums. The
deviation is that of the errors of kinds of networks that were left out of the fit: it is what 90%
of them keep within, over the half-width of 90% of a normal distribution.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import onnxruntime
import refit
import torch
from dlbricks_prediction import Contribution, from_atlas, shipped
from dlbricks_prediction.atlas import LayerTable
from dlbricks_prediction.baseline import expected_ms
from dlbricks_prediction.features import Features
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.from_contribution import processor_of
from dlbricks_prediction.warm import Warmth, are_warm, cold_twins
from scipy import optimize

from dlbricks_core.api.inputs import models_of
from dlbricks_core.bricks import BrickSet
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import current_system

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.networks.small import FACTORIES, KINDS

RECORDS = Path(__file__).with_name("warmth.csv")

USUAL = Warmth(0.02, 1.0, 0.3)
"""Warm layers of a backend that no network was timed on: only their data are near."""

LEFT_OUT = {"onnxruntime": ("bags",)}
"""Kinds of networks by backend that take long for another reason: exported bags are loops."""

_LONGEST_MS = 3.0
"""Latency of the longest network that counts: others do not stay near a core."""


def in_loop(run: Callable[[], object]) -> float:
    """Median milliseconds of twelve runs, after two."""
    times = []
    for _ in range(14):
        begin = perf_counter()
        run()
        times.append(1e3 * (perf_counter() - begin))
    return median(times[2:])


def export(folder: Path) -> Mapping[str, Path]:
    """The networks as ONNX files, by name."""
    paths = {}
    for name, factory in FACTORIES.items():
        module, inputs = factory()
        paths[name] = folder / f"{name}.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, inputs, paths[name], dynamo=False, opset_version=17)
    return paths


def measure(paths: Mapping[str, Path], turns: int) -> None:
    """Times all networks in turns, and writes the least median of each."""
    torch.set_num_threads(1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    found: dict[tuple[str, str], float] = {}
    for _ in range(turns):
        for name, factory in FACTORIES.items():
            module, inputs = factory()
            session = onnxruntime.InferenceSession(paths[name], options)
            fed = [each.numpy() for each in inputs]
            feeds = {node.name: x for node, x in zip(session.get_inputs(), fed, strict=True)}
            with torch.inference_mode():
                now = {
                    "pytorch": in_loop(partial(module, *inputs)),
                    "onnxruntime": in_loop(partial(session.run, None, feeds)),
                }
            for backend, ms in now.items():
                found[backend, name] = min(ms, found.get((backend, name), np.inf))
    with RECORDS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("system", "backend", "network", "ms"))
        here = current_system().fingerprint
        writer.writerows((here, *key, f"{ms:.4f}") for key, ms in sorted(found.items()))


@dataclass(frozen=True)
class Timed:
    """A network that was timed in a loop.

    Attributes:
        name: Its name.
        ms: Milliseconds of a run.
        call_ms: What the call costs beside the layers.
        counts: Number of occurrences of each layer.
        cold_ms: Latency of each layer's cold twin, with data from the caches where it is warm.
        warm: Whether each layer is warm.
    """

    name: str
    ms: float
    call_ms: float
    counts: np.ndarray
    cold_ms: np.ndarray
    warm: np.ndarray

    @property
    def kind(self) -> str:
        """Kind of network that it was drawn from."""
        return self.name.rpartition("_")[0]

    def off(self, warmth: Warmth) -> float:
        """Logarithm of predicted over measured latency."""
        layers = self.cold_ms * np.where(self.warm, warmth.of(self.cold_ms), 1.0)
        return float(np.log((self.counts @ layers + self.call_ms) / self.ms))


def timed(backend: str, models: Mapping[str, CanonicalModel]) -> list[Timed]:
    """The networks that were timed on a backend, with predictions from this system's data."""
    with RECORDS.open(encoding="utf-8", newline="") as file:
        rows_there = [row for row in csv.DictReader(file) if row["backend"] == backend]
    ms = {row["network"]: float(row["ms"]) for row in rows_there}
    here = own_data(rows_there[0]["system"], backend)
    table, rows = LayerTable(), {}
    for name, model in models.items():
        (cut,) = (bricks := BrickSet.of([model], 128, "short-segments", rereading=True)).models
        rows[name] = [
            (place, number * count)
            for signature, count in cut.counts.items()
            for place, number in table.add(Features.of(bricks.bricks[signature].model)).items()
        ]
    features = table.features
    belief = believed(cold_twins(features), here.setup, here.system, [here])
    near = expected_ms(features, processor_of(here))
    far = expected_ms(cold_twins(features), processor_of(here))
    cold_ms, warm = np.exp(belief.mean) * near / far, are_warm(features)
    call_ms = float(np.median(here.call_ms))
    found = []
    for name, layers in rows.items():
        places, counts = (np.array(each) for each in zip(*layers, strict=True))
        one = Timed(name, ms[name], call_ms, counts, cold_ms[places], warm[places])
        if warm[places].any() and one.ms < _LONGEST_MS:
            found.append(one)
    return [each for each in found if each.kind not in LEFT_OUT.get(backend, ())]


def own_data(system: str, backend: str) -> Contribution:
    """The reference data of a system, with one thread."""
    return next(
        each
        for each in shipped(backend)
        if each.system.fingerprint == system and each.setup.threads == 1
    )


def fitted(networks: Sequence[Timed]) -> Warmth:
    """Numbers with the least mean error; kinds of networks have equal weight."""
    kinds = [each.kind for each in networks]
    weights = np.array([1 / kinds.count(kind) for kind in kinds])

    def loss(numbers: np.ndarray) -> float:
        warmth = Warmth(float(np.exp(numbers[0])), float(np.exp(-(numbers[1] ** 2))), 0.0)
        return float(weights @ np.abs([each.off(warmth) for each in networks]))

    starts = [(np.log(start), 1.0) for start in (0.005, 0.03, 0.2)]
    tried = [optimize.minimize(loss, each, method="Nelder-Mead") for each in starts]
    best = min(tried, key=lambda each: each.fun).x
    return Warmth(round(float(np.exp(best[0])), 4), round(float(np.exp(-(best[1] ** 2))), 3), 0.0)


def judged(backend: str, networks: Sequence[Timed]) -> Warmth:
    """Numbers of a backend, with the deviation of kinds that were left out."""
    off = []
    for kind in KINDS:
        rest = fitted([each for each in networks if each.kind != kind])
        off += [each.off(rest) for each in networks if each.kind == kind]
    before = [each.off(USUAL) for each in networks]
    deviation = float(np.quantile(np.abs(off), 0.9)) / NORMAL_HALF_WIDTH
    found = fitted(networks)
    print(f"{backend}: {len(networks)} networks, mean error of logarithms {_mean(before):.3f}; "
          f"kinds left out {_mean(off):.3f}")  # fmt: skip
    return Warmth(found.start_ms, found.share, round(deviation, 2))


def _mean(off: Sequence[float]) -> float:
    return float(np.mean(np.abs(off)))


def main() -> None:
    """Times the networks where asked for, and writes the numbers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", type=int, metavar="TURNS")
    turns = parser.parse_args().measure
    numbers = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = export(Path(folder))
        if turns:
            measure(paths, turns)
        specs = {
            "onnxruntime": [*map(str, paths.values())],
            "pytorch": [f"torch:benchmarks.networks.small:{name}" for name in FACTORIES],
        }
        for backend, names in specs.items():
            models = dict(zip(FACTORIES, models_of(names), strict=True))
            numbers[backend] = vars(judged(backend, timed(backend, models)))
    print(numbers)
    every = {**numbers, "*": vars(USUAL)}
    refit.write(from_atlas, "warmth", every, "contributions", "features", "kernel")


if __name__ == "__main__":
    main()
