"""Success rate of advice: the cheapest system under a latency bound, for models that did not run.

    python benchmarks/systems/advise.py FOLDER

FOLDER holds the layers and models of six cloud systems, as their authors measured them. Each family
of models, or each model, in turn is held out with all layers that only it has. Its latencies are
predicted from layers of the others on each system, and compared with end-to-end latencies.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from dlbricks_prediction.from_atlas import expectation
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.sampling import centred
from dlbricks_prediction.transfer import transferred
from dlbricks_serving.advice.choice import coupled, first_shares
from dlbricks_serving.advice.search import OF_BACKEND
from ec2 import SYSTEMS, Ec2, setup_of
from scipy import sparse

from dlbricks_core.figures.figure import RESAMPLES, interval

PER_HOUR = {
    "c4.xlarge": 0.199, "c4.2xlarge": 0.398, "c5.large": 0.085, "c5.xlarge": 0.17,
    "c5.2xlarge": 0.34, "c5n.xlarge": 0.216,
}  # fmt: skip
"""Price of each system in US dollars an hour: on demand, Linux, US East (N. Virginia), 2019."""

BOUNDS_MS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Round bounds that a user might name."""

WITHIN = 1.1
"""Price over that of the cheapest up to which a system counts as found."""

COMPOSING_ERROR = 0.03
"""Standard deviation of the error of a sum over layers, as the composer that learns has it."""

_FAMILIES: Mapping[str, str] = {
    "Ademxapp": "ademxapp", "VGG|SSD": "vgg", "CapsNet": "capsnet",
    "Inception|ImageIdentify": "inception", "MobileNet": "mobilenet",
    "ResNet|NSFW|Squeeze-and": "resnet", "SqueezeNet": "squeezenet", "AdaIN": "adain",
    "Colorful|ColorNet": "colorization", "CycleGAN": "cyclegan", "Pix2pix": "pix2pix",
    "Super-Resolution": "vdsr", "YOLO": "yolo", "Face Alignment|Volumetric": "hourglass",
    "Depth": "depth", "Multi-scale": "dilated",
}  # fmt: skip
"""Family of the models whose names hold one of these words; the first that fits counts. Models of
one family share their architecture or its backbone."""

LOOKED_AT = frozenset(
    {"adain", "capsnet", "cyclegan", "hourglass", "mobilenet", "resnet", "vdsr", "yolo"}
)
"""Every second family in the order of the alphabet. Other ways to predict were tried on these."""


def family_of(name: str) -> str:
    """Family of a model."""
    return next(family for words, family in _FAMILIES.items() if re.search(words, name))


@dataclass(frozen=True)
class Measured:
    """Layers and whole models on six systems.

    Attributes:
        data: The layers.
        whole_ms: End-to-end milliseconds: shape (models, systems); not a number where nothing
            was measured.
    """

    data: Ec2
    whole_ms: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Measured:
        """Reads the files of the folder."""
        with (folder / "models.csv").open() as file:
            rows = list(csv.DictReader(file))
        whole = [[float(row[f"{s}_ms"] or "nan") for s in SYSTEMS] for row in rows]
        # One cell has 26 microseconds for a model of nine seconds: it did not run there.
        return cls(Ec2.read(folder), np.where(np.array(whole) < 1, np.nan, whole))

    @cached_property
    def families(self) -> np.ndarray:
        """Family of each model."""
        return np.array([family_of(name) for name in self.data.names])

    @cached_property
    def models(self) -> np.ndarray:
        """Models that ran on all systems and whose layers were all measured somewhere."""
        known = np.any([np.isfinite(us) for us in self.data.us.values()], axis=0)
        complete = (self.data.counts[:, ~known] == 0).all(axis=1)
        return np.flatnonzero(complete & np.isfinite(self.whole_ms).all(axis=1))


@dataclass
class Believing:
    """Predicts whole models on each system from layers of other models.

    Attributes:
        measured: All that was measured.
    """

    measured: Measured

    def __post_init__(self) -> None:
        features = self.measured.data.features
        self.kernel = kernel_of("mxnet")
        self.covariance = self.kernel.covariance(features, features)
        self.contributions = {s: self.measured.data.contribution(s) for s in SYSTEMS}
        self.baseline = expectation(features)
        self.expected = {
            s: self.baseline(each.system, each.setup.threads)
            for s, each in self.contributions.items()
        }

    def belief(self, system: str, held: np.ndarray) -> LayerPosterior:
        """Posterior of all layers on a system, from layers of other models that were timed there.

        Args:
            system: Name of the system.
            held: Numbers of the models that are held out.
        """
        data, it = self.measured.data, self.contributions[system]
        others = np.delete(data.counts, held, axis=0).sum(axis=0) > 0
        layers = it.counts.indices  # each network is a layer
        some = np.flatnonzero(others[layers])
        noise = it.noise[some] + self.kernel.noise
        prior = LayerPosterior.dense(self.expected[system], self.covariance)
        return prior.observed(it.counts[some], it.log_ms[some], noise)

    def known_everywhere(self, held: np.ndarray) -> dict[str, np.ndarray]:
        """Draws of the held-out models on each system, of which all were surveyed."""
        return {
            system: self.draws(self.belief(system, held), held, seed)
            for seed, system in enumerate(SYSTEMS)
        }

    def one_unknown(self, held: np.ndarray, left: str) -> dict[str, np.ndarray]:
        """Draws of the held-out models if one of the systems is unknown."""
        known = [each for each in SYSTEMS if each != left]
        beliefs = {each: self.belief(each, held) for each in known}
        elsewhere = transferred(
            list(beliefs.values()),
            [(SYSTEMS[each], setup_of(each)) for each in known],
            self.measured.data.features,
            self.baseline,
            (SYSTEMS[left], setup_of(left)),
        )
        beliefs[left] = elsewhere
        return {s: self.draws(beliefs[s], held, i) for i, s in enumerate(SYSTEMS)}

    def timed_bricks(self, held: np.ndarray) -> dict[str, np.ndarray]:
        """Draws where all layers were timed alone on each system, those of these models too."""
        found = {}
        for seed, (system, us) in enumerate(self.measured.data.us.items()):
            belief = self.belief(system, held)
            known = np.isfinite(us)
            belief.mean[known] = np.log(us[known] / 1e3)
            covariance = belief.covariance * np.outer(~known, ~known)
            found[system] = self.draws(LayerPosterior.dense(belief.mean, covariance), held, seed)
        return found

    def draws(self, belief: LayerPosterior, models: np.ndarray, seed: int) -> np.ndarray:
        """Draws of the milliseconds of models: shape (models, draws)."""
        counts = self.measured.data.counts[models]
        used = np.flatnonzero(counts.sum(axis=0))
        counts = sparse.csr_array(counts[:, used])
        belief = centred(belief.of(used), counts)
        drawn = np.exp(belief.draws(RESAMPLES, seed)) @ counts.T.toarray()
        random = np.random.default_rng((seed, 1))
        off = np.exp(COMPOSING_ERROR * random.standard_normal(drawn.T.shape))
        return drawn.T * off


@dataclass(frozen=True)
class Asked:
    """A question, and the answer.

    Attributes:
        model: Number of the model.
        found: Whether the advised system keeps the bound and costs little more than the cheapest.
        hard: Whether the cheapest system of all does not keep the bound.
        probability: How probable it was said to be that the first is first.
        is_first: Whether it is.
    """

    model: int
    found: bool
    hard: bool
    probability: float
    is_first: bool


def advised(draws: np.ndarray, truth: np.ndarray, bound: float, model: int) -> Asked | None:
    """Advice on one model under one bound; ``None`` if no system keeps the bound.

    Args:
        draws: Joint draws of its latency: shape (systems, draws).
        truth: Measured latency on each system.
        bound: Milliseconds.
        model: Number of the model.
    """
    if truth.min() > bound:
        return None
    per_ms = np.array(list(PER_HOUR.values()))
    prices, paid = draws * per_ms[:, None], truth * per_ms
    likely = np.median(draws, axis=1)
    allowed = likely <= bound if (likely <= bound).any() else likely == likely.min()
    first = int(np.argmin(np.where(allowed, likely * per_ms, np.inf)))
    best = int(np.argmin(np.where(truth <= bound, paid, np.inf)))
    shares = first_shares(prices, draws <= bound)
    near = truth[first] <= bound and paid[first] <= WITHIN * paid[best]
    hard = truth[int(np.argmin(paid))] > bound
    return Asked(model, bool(near), bool(hard), float(shares[first]), first == best)


def ask(
    measured: Measured,
    draws: Mapping[int, np.ndarray],
    bounds: Callable[[np.ndarray], Sequence[float]],
) -> list[Asked]:
    """All questions about all models.

    Args:
        measured: What is true.
        draws: Joint draws of each model's latencies.
        bounds: Bounds for a model, by its measured latencies.
    """
    found = []
    for model, each in draws.items():
        truth = measured.whole_ms[model]
        answers = (advised(each, truth, bound, model) for bound in bounds(truth))
        found += [answer for answer in answers if answer]
    return found


Predict = Callable[[np.ndarray], Mapping[str, np.ndarray]]
"""Draws of some models by system, which are held out together."""


def everywhere(groups: Sequence[np.ndarray], predict: Predict) -> dict[int, np.ndarray]:
    """Joint draws of each model on all systems; shape (systems, draws).

    Args:
        groups: Numbers of the models that are held out together.
        predict: Draws of them.
    """
    found = {}
    size = len(SYSTEMS)
    correlation = np.full((size, size), OF_BACKEND) + (1 - OF_BACKEND) * np.eye(size)
    for held in groups:
        by_system = coupled(list(predict(held).values()), correlation)
        for place, model in enumerate(held):
            found[int(model)] = np.array([each[place] for each in by_system])
    return found


def errors(measured: Measured, draws: Mapping[int, np.ndarray]) -> None:
    """Prints how far predictions are off, and what the errors on two systems have in common."""
    truth = np.array([measured.whole_ms[model] for model in draws])
    values = np.array([np.median(each, axis=1) for each in draws.values()])
    ends = np.array([[interval(each) for each in of] for of in draws.values()])
    inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
    off = np.log(values / truth)
    families = measured.families[list(draws)]
    weights = np.array([1 / (families == each).sum() for each in families])
    products = np.einsum("m,ms,mt->st", weights, off, off)
    scale = np.sqrt(np.diag(products))
    correlation = products / np.outer(scale, scale)
    apart = correlation[~np.eye(len(correlation), dtype=bool)]
    print(
        f"  error {np.abs(values / truth - 1).mean():.1%}, 90% intervals hold {inside.mean():.0%}; "
        f"correlation of the errors of two systems: {np.median(apart):.2f} "
        f"({apart.min():.2f} to {apart.max():.2f})"
    )


def tell(name: str, measured: Measured, asked: Sequence[Asked]) -> None:
    """Prints how often the cheapest system was found."""
    for label, some in (("all", asked), ("hard", [each for each in asked if each.hard])):
        if not some:
            continue
        found = np.mean([each.found for each in some])
        models = {each.model for each in some}
        wrong = {each.model for each in some if not each.found}
        families = {measured.families[model] for model in models}
        kept = len(families - {measured.families[model] for model in wrong})
        said = np.mean([each.probability for each in some])
        right = np.mean([each.is_first for each in some])
        print(
            f"  {name}, {label}: found {found:.0%} of {len(some)} questions; always for "
            f"{1 - len(wrong) / len(models):.0%} of {len(models)} models, {kept} of "
            f"{len(families)} families; first is first: said {said:.0%}, true {right:.0%}",
            flush=True,
        )


def middle(truth: np.ndarray) -> list[float]:
    """A bound that is never trivial: the geometric mean of the fastest and the slowest."""
    return [float(np.sqrt(truth.min() * truth.max()))]


def report(title: str, measured: Measured, groups: Sequence[np.ndarray], predict: Predict) -> None:
    """Prints all figures for one way to predict, for all families and for those never looked at."""
    draws = everywhere(groups, predict)
    fresh = {m: each for m, each in draws.items() if measured.families[m] not in LOOKED_AT}
    for which, some in (("", draws), ("; families not looked at", fresh)):
        print(f"{title}{which}")
        errors(measured, some)
        tell("round bounds", measured, ask(measured, some, lambda _: BOUNDS_MS))
        tell("middle bound", measured, ask(measured, some, middle))


def main(folder: Path) -> None:
    """Prints all tables."""
    measured = Measured.read(folder)
    believing = Believing(measured)
    own = measured.families[measured.models]
    families = [measured.models[own == each] for each in dict.fromkeys(own)]
    single = [np.array([each]) for each in measured.models]
    print(f"{len(single)} models of {len(families)} families")
    report("Family held out", measured, families, believing.known_everywhere)
    report("Model held out", measured, single, believing.known_everywhere)
    report("All layers timed, no model run", measured, families, believing.timed_bricks)
    for left in SYSTEMS:
        unknown = partial(believing.one_unknown, left=left)
        report(f"Family held out, nothing timed on {left}", measured, families, unknown)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
