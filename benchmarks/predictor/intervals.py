r"""Reports the coverage of intervals, with families of models left out.

    python benchmarks/predictor/intervals.py onnx: mxnet:

Half of the families are left out of each contribution that comes with the package, in closed form.
All models of these families are then predicted together, with some of their bricks taken as timed:
none, a tenth, ..., all that the contribution holds. The contributions also hold the latencies of
the whole models; one that holds none is left out.

Intervals hold the predictor's draws, the error of composing, and the errors that bricks of one
model share (`discrepancy.py` fits these). Coverage is given without and with the latter. Nothing is
measured. The program needs 4 GB of memory, and one to four minutes for each contribution.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from dlbricks_prediction import Contribution, shipped
from dlbricks_prediction.from_atlas import FromAtlas
from dlbricks_prediction.from_contribution import prior_of, processor_of, with_sites
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import shares_of
from dlbricks_prediction.whole_errors import discrepancy_of
from scipy import linalg

from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.bricks.families import family_of
from dlbricks_core.compose.learned import Learned
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Discrepancy, Predicted
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.progress import Observer

FOLDS = (
    ("alexnet", "mobilenet", "mobilenetv2", "resnet", "shufflenet", "squeezenet", "transformer",
     "zfnet"),
    ("densenet", "detr", "inception", "lstm", "unet", "vgg", "yolo"),
)  # fmt: skip
"""Families that are left out together."""

SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)
"""Shares of the held bricks that are taken as timed."""

Z = 1.645
"""Half-width of a 90% interval in standard deviations."""


@dataclass(frozen=True)
class Judged:
    """Predicted latency of a model, compared with its measured latency.

    Attributes:
        place: Backend, threads and family.
        timed: Share of the bricks that the contribution holds which were taken as timed.
        off: Logarithm of predicted over measured latency.
        spread: Standard deviation of that logarithm over the predictor's draws.
        predicted: Share of the predicted latency that belongs to bricks that were not timed.
        ms: Predicted latency in milliseconds.
    """

    place: str
    timed: float
    off: float
    spread: float
    predicted: float
    ms: float


def without_each(
    it: Contribution, folds: Sequence[Sequence[str]]
) -> Iterator[tuple[Sequence[str], Contribution]]:
    """The contribution without the families of each fold, with the pulls of the other networks.

    The inverse of the covariance says what the others alone would tell (Rasmussen and Williams,
    2006, section 5.4.2). Layers' shares of networks' latencies stay those of all networks.
    """
    kernel = kernel_of(it.setup.backend)
    prior = prior_of(it.features, kernel, processor_of(it))
    moved = prior.spread.times(it.pulls)
    shares, totals = shares_of(it.counts, prior.mean + moved, it.call_ms)
    among = prior.between(shares)
    among += np.diag(it.noise + kernel.noise)
    inverse = linalg.inv(among, overwrite_a=True)
    pull = inverse @ (it.log_ms - np.log(totals) + shares @ moved)
    for families in folds:
        out = np.array([not set(families).isdisjoint(group.split(",")) for group in it.groups])
        rest = pull - inverse[:, out] @ np.linalg.solve(inverse[np.ix_(out, out)], pull[out])
        rest[out] = 0.0
        kept = [int(i) for i in np.flatnonzero(~out)]
        used = np.unique(it.counts[kept].indices)
        pulls = np.asarray(shares.T @ rest)[used]
        left = replace(it.only(kept), pulls=pulls, kernel=kernel.identity)
        yield families, with_sites(left, kernel)


def judged(brickset: BrickSet, it: Contribution) -> Iterator[Judged]:
    """Predictions of all models at all shares, with their families left out of a contribution."""
    for number, (families, rest) in enumerate(without_each(it, FOLDS)):
        models = [cut for cut in brickset.models if family_of(cut.model) in families]
        yield from judged_from([rest], models, brickset, it, number)


def judged_from(
    atlas: Sequence[Contribution],
    models: Sequence[CutModel],
    brickset: BrickSet,
    it: Contribution,
    seed: int = 0,
) -> Iterator[Judged]:
    """Predictions of models at all shares, compared with a contribution.

    Args:
        atlas: Contributions that the predictions rest on.
        models: The models. Those that the contribution does not hold are left out.
        brickset: All models.
        it: The contribution.
        seed: Seed of the order in which bricks are taken as timed.
    """
    place = {signature: i for i, signature in enumerate(it.signatures)}
    models = [cut for cut in models if cut.whole.signature in place]
    bricks = {s: brickset.bricks[s] for cut in models for s in cut.counts}
    order = np.random.default_rng(seed).permutation(sorted(bricks.keys() & place.keys()))
    predictor = FromAtlas()
    for share in SHARES:
        known = {str(s): _figure(it, place[s]) for s in order[: round(share * len(order))]}
        figures = predictor.predict(bricks, it.setup, it.system, known, atlas)
        for cut in models:
            found = _judged(cut, figures, known, it, place[cut.whole.signature])
            yield replace(found, timed=share)


def _figure(it: Contribution, network: int) -> Predicted:
    """Measured latency of a network, as a figure without spread."""
    ms = float(np.exp(it.log_ms[network]))
    return Predicted(ms, np.full(RESAMPLES, ms), float(it.call_ms[network]))


def _judged(
    cut: CutModel,
    figures: Mapping[str, Predicted],
    known: Mapping[str, Predicted],
    it: Contribution,
    network: int,
) -> Judged:
    parts = {s: count * figures[s].draws for s, count in cut.counts.items()}
    new = np.sum([np.zeros(RESAMPLES), *(parts[s] for s in parts if s not in known)], axis=0)
    total = np.sum(list(parts.values()), axis=0)
    low, middle, high = np.percentile(np.log(total + it.call_ms[network]), (5, 50, 95))
    setup = it.setup
    return Judged(
        f"{setup.backend} {setup.threads} {family_of(cut.model)}",
        0.0,
        float(middle - it.log_ms[network]),
        float(high - low) / (2 * Z),
        float(np.median(new) / np.median(total)),
        float(np.exp(middle)),
    )


def deviations(found: Sequence[Judged], discrepancy: Discrepancy) -> np.ndarray:
    """Standard deviation of each logarithm, including the errors that bricks share."""
    spread, share = np.array([(each.spread, each.predicted) for each in found]).T
    common = discrepancy.predicted * share + discrepancy.measured * (1 - share)
    return np.sqrt(spread**2 + Learned.composing_error**2 + common**2)


def report(name: str, found: Sequence[Judged], discrepancy: Discrepancy) -> None:
    """Prints a line for each share of timed bricks."""
    print(f"{name}: {discrepancy}")
    for share in SHARES:
        own = [each for each in found if each.timed == share]
        if not own:
            continue
        off = np.array([each.off for each in own])
        error = np.abs(np.expm1(off))
        print(f"  {share:4.0%} timed: off by {error.mean():5.1%}", end="")
        print(f" ({np.mean(error <= 0.2):.0%} within 20%)", end="")
        for shared in (Discrepancy(), discrepancy):
            deviation = deviations(own, shared)
            covered = np.mean(np.abs(off) <= Z * deviation)
            print(f", {covered:.0%} in ±{Z * np.median(deviation):.0%}", end="")
        print(flush=True)


def main(*names: str) -> None:
    """Prints the coverage without and with shared errors, for each contribution."""
    brickset = cut_as_predicted(names)
    for it in shipped():
        if own := list(judged(brickset, it)):
            place = f"{it.system.fingerprint[:8]}, {it.setup.backend}, {it.setup.threads} threads"
            report(place, own, discrepancy_of(it.setup.backend))


def cut_as_predicted(names: Sequence[str]) -> BrickSet:
    """Models of some names, cut as the predictor's composer cuts them."""
    models = load_models(names, LoadOptions(), Observer()).models
    return BrickSet.of(models, Learned.granularity, Learned.strategy, rereading=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
