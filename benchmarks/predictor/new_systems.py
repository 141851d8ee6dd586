r"""Errors of predictions for each system of the atlas, as if the atlas lacked it.

    python benchmarks/predictor/new_systems.py onnx: mxnet:

Networks of the models are predicted from the contributions of all other systems, without probes and
with some. Probes are drawn networks, chosen as on a new machine, with the latencies that the
system's own contribution holds. So nothing drifts between probes and reference, as it does in
`benchmarks/new_system.py`, which measures. Nothing is measured here. Contributions that hold none
of the whole models are left out. The program takes ten seconds for each contribution.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from dlbricks_prediction import Contribution, shipped
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.rates import surveyed
from dlbricks_prediction.robust import doubt
from dlbricks_survey.probes import choose_probes, half_widths

from dlbricks_core.bricks import CutModel
from dlbricks_core.estimation.adaptive.probing import BATCH
from dlbricks_core.estimation.rates import RUNS
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.progress import Observer

PROBES = (0, 10, 30)
_CANDIDATES, _FEW, _SHORT = 100, 60, 12
"""Number of candidates; number of drawn networks below which other networks join them; and most
layers of such a network.
"""


@dataclass(frozen=True)
class Judged:
    """Errors with a number of probes.

    Attributes:
        error: Mean relative error.
        median: Median of the relative errors, with their signs.
        covered: Share of models within their 90% intervals.
        half_width: Median half-width of these intervals, relative to the latency.
    """

    error: float
    median: float
    covered: float
    half_width: float

    def __str__(self) -> str:
        return (
            f"{self.error:5.1%} ({self.median:+5.1%}), "
            f"{self.covered:4.0%} in ±{self.half_width:.0%}"
        )


def judged(it: Contribution, wholes: Sequence[str], drawn: Sequence[str]) -> Iterator[Judged]:
    """Errors for one system, for each number of probes.

    Args:
        it: The system's own contribution.
        wholes: Signatures of the models that it holds.
        drawn: Signatures of drawn networks.
    """
    place = {signature: i for i, signature in enumerate(it.signatures)}
    models = [place[signature] for signature in wholes]
    part = it.only([*models, *_candidates(it, models, [place[s] for s in drawn if s in place])])
    others = [c for c in shipped(it.setup.backend) if c.system.fingerprint != it.system.fingerprint]
    prior = believed(part.features, it.setup, it.system, others)
    asked, size = part.counts[: len(models)], len(models)
    for number in PROBES:
        belief = _probed(prior, part, size, number)
        ms = asked @ np.exp(belief.mean) + part.call_ms[:size]
        off = np.log(ms) - part.log_ms[:size]
        widths = half_widths(belief, asked)
        error = np.expm1(off)
        covered = np.abs(off) <= np.arcsinh(widths)
        yield Judged(np.abs(error).mean(), np.median(error), covered.mean(), np.median(widths))


def _candidates(it: Contribution, models: Sequence[int], drawn: Sequence[int]) -> list[int]:
    """Networks that may be probes: drawn ones, and small ones where there are few of these."""
    if len(drawn) >= _FEW:
        return list(drawn)
    small = np.flatnonzero(np.diff(it.counts.indptr) <= _SHORT)
    rest = np.setdiff1d(small, [*models, *drawn])
    chosen = np.random.default_rng(0).permutation(rest)[: _CANDIDATES - len(drawn)]
    return [*drawn, *map(int, chosen)]


def _probed(prior: LayerPosterior, part: Contribution, models: int, number: int) -> LayerPosterior:
    """The belief after some probes, chosen in turns as on a new machine."""
    kernel = kernel_of(part.setup.backend)
    asked, belief, chosen = part.counts[:models], prior, np.zeros(0, dtype=np.intp)
    while len(chosen) < number:
        able = np.setdiff1d(np.arange(models, len(part)), chosen)
        most = min(BATCH, number - len(chosen))
        found = choose_probes(belief, part.counts[able], asked, kernel.noise, RUNS, most)
        if not found:
            break
        chosen = np.append(chosen, able[list(found)])
        counts, log_ms, call_ms = part.counts[chosen], part.log_ms[chosen], part.call_ms[chosen]
        noise = part.noise[chosen] + kernel.noise
        extra = doubt(prior, counts, log_ms, noise, call_ms)
        belief = prior.observed(counts, log_ms, noise + extra, call_ms)
    return belief


def main(*names: str) -> None:
    """Prints a line for each contribution, and the means."""
    models: Sequence[CanonicalModel] = load_models(names, LoadOptions(), Observer()).models
    signatures = [CutModel(model, (), model).whole.signature for model in models]
    drawn, every = list(surveyed(_CANDIDATES)), []
    print(f"probes: {', '.join(map(str, PROBES))}; mean error (median), covered")
    for it in shipped():
        held = [s for s in signatures if s in set(it.signatures)]
        if held:
            found = list(judged(it, held, drawn))
            every.append(found)
            place = f"{it.system.microarchitecture} {it.setup.backend} {it.setup.threads}"
            print(f"{place:20} {len(held):2} models: {' | '.join(map(str, found))}", flush=True)
    errors = np.mean([[each.error for each in found] for found in every], axis=0)
    print("mean errors:", ", ".join(f"{each:.1%}" for each in errors))


if __name__ == "__main__":
    main(*sys.argv[1:])
