r"""Fits the errors that bricks of one model share, and reports the coverage of intervals.

    python benchmarks/predictor/intervals.py onnx: mxnet:

Half of the families are left out of each contribution that comes with the package, in closed form.
All models of these families are then predicted together, with some of their bricks taken as timed:
none, a tenth, ..., all. The contributions also hold the latencies of the whole models; one that
holds none is left out. With one that lacks bricks of the models, none is taken as timed.

Two numbers, as in `DISCREPANCY` of `dlbricks_core/predict/from_atlas.py`, maximize the likelihood
of these latencies, in addition to the predictor's draws and the error of composing: for each
contribution, and for all together. A contribution whose bricks and whole models come from
different sessions gives larger ones. All
families have equal weight, and so have all shares of timed bricks. Nothing is measured. The program
needs 4 GB of memory, and one to four minutes for each contribution.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, optimize

from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.compose.learned import Learned
from dlbricks_core.figures.figure import RESAMPLES, Predicted
from dlbricks_core.predict import Contribution, shipped
from dlbricks_core.predict.belief import shares_of
from dlbricks_core.predict.from_atlas import (
    DISCREPANCY,
    FromAtlas,
    kernel_of,
    prior_of,
    processor_of,
    with_sites,
)
from dlbricks_core.workflows import LoadOptions, Observer, load_models
from dlbricks_core.workflows.knowledge import family_of

FOLDS = (
    ("alexnet", "mobilenet", "mobilenetv2", "resnet", "shufflenet", "squeezenet", "transformer",
     "zfnet"),
    ("densenet", "detr", "inception", "lstm", "unet", "vgg", "yolo"),
)  # fmt: skip
"""Families that are left out together."""

SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)
"""Shares of the bricks that are taken as timed."""

_Z = 1.645


@dataclass(frozen=True)
class Judged:
    """Predicted latency of a model, compared with its measured latency.

    Attributes:
        place: Backend, threads and family.
        timed: Share of the bricks of all models that were taken as timed.
        off: Logarithm of predicted over measured latency.
        spread: Standard deviation of that logarithm over the predictor's draws.
        predicted: Share of the predicted latency that belongs to bricks that were not timed.
    """

    place: str
    timed: float
    off: float
    spread: float
    predicted: float


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
    place = {signature: i for i, signature in enumerate(it.signatures)}
    for number, (families, rest) in enumerate(without_each(it, FOLDS)):
        models = [cut for cut in brickset.models if family_of(cut.model) in families]
        models = [cut for cut in models if cut.whole.signature in place]
        bricks = {s: brickset.bricks[s] for cut in models for s in cut.counts}
        predictor = FromAtlas()
        random = np.random.default_rng(number)
        order = random.permutation(sorted(bricks))
        # A contribution with other cuts of these models lacks their bricks.
        shares = SHARES if bricks.keys() <= place.keys() else SHARES[:1]
        for share in shares:
            known = {str(s): _figure(it, place[s]) for s in order[: round(share * len(order))]}
            figures = predictor.predict(bricks, it.setup, it.system, known, [rest])
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
        float(high - low) / (2 * _Z),
        float(np.median(new) / np.median(total)),
    )


def fitted(found: Sequence[Judged]) -> tuple[float, float]:
    """Errors that bricks of a model share: of bricks that were not timed, and of timed ones."""
    often = Counter((each.place, each.timed) for each in found)
    weights = np.array([1 / often[each.place, each.timed] for each in found])
    off = np.array([each.off for each in found])

    def loss(logs: np.ndarray) -> float:
        variance = deviations(found, *np.exp(logs)) ** 2
        return float((weights * (np.log(variance) + off**2 / variance)).sum() / weights.sum())

    best = optimize.minimize(loss, np.log([0.05, 0.03]), method="Nelder-Mead", bounds=[(-7, 0)] * 2)
    predicted, measured = np.exp(best.x)
    return float(predicted), float(measured)


def deviations(found: Sequence[Judged], predicted: float, measured: float) -> np.ndarray:
    """Standard deviation of each logarithm, including the errors that bricks share."""
    spread, share = np.array([(each.spread, each.predicted) for each in found]).T
    common = predicted * share + measured * (1 - share)
    return np.sqrt(spread**2 + Learned.composing_error**2 + common**2)


def report(name: str, found: Sequence[Judged], predicted: float, measured: float) -> None:
    """Prints a line for each share of timed bricks."""
    print(f"{name}: {predicted:.3f} where not timed, {measured:.3f} where timed")
    for share in SHARES:
        own = [each for each in found if each.timed == share]
        if not own:
            continue
        off = np.array([each.off for each in own])
        error = np.abs(np.expm1(off))
        print(f"  {share:4.0%} timed: off by {error.mean():5.1%}", end="")
        print(f" ({np.mean(error <= 0.2):.0%} within 20%)", end="")
        for sizes in ((0.0, 0.0), (predicted, measured)):
            deviation = deviations(own, *sizes)
            covered = np.mean(np.abs(off) <= _Z * deviation)
            print(f", {covered:.0%} in ±{_Z * np.median(deviation):.0%}", end="")
        print(flush=True)


def main(*names: str) -> None:
    """Prints the coverage without and with shared errors, for each contribution.

    The errors are those that predictions have, fitted to the contribution, and fitted to all.
    """
    models = load_models(names, LoadOptions(), Observer()).models
    brickset = BrickSet.of(models, Learned.granularity, Learned.strategy, rereading=True)
    found = {}
    for it in shipped():
        own = list(judged(brickset, it))
        if not own:
            continue
        place = f"{it.system.fingerprint[:8]}, {it.setup.backend}, {it.setup.threads} threads"
        found[place] = own
        report(f"{place}, as predicted", own, DISCREPANCY.predicted, DISCREPANCY.measured)
        report(f"{place}, fitted alone", own, *fitted(own))
    together = fitted([each for own in found.values() for each in own])
    for place, own in found.items():
        report(f"{place}, fitted together", own, *together)


if __name__ == "__main__":
    main(*sys.argv[1:])
