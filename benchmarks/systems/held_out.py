"""Accuracy of predicted sums over layers for a system on which only some layers were timed.

    python benchmarks/systems/held_out.py FOLDER

FOLDER holds the layers and models of six cloud systems. Each system in turn is left out: its layers
are predicted from those of the others and from a few probes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from dlbricks_prediction.features import Features
from dlbricks_prediction.from_atlas import expectation
from dlbricks_prediction.kernel import Kernel, kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.robust import doubt
from dlbricks_prediction.transfer import contrasts, difference, transferred, unlikeness
from dlbricks_survey.probes import OVERHEAD_S, choose_probes
from ec2 import SYSTEMS, Ec2, setup_of
from scipy import optimize, sparse

PROBES = (0, 10, 30)
RUNS = 8
BATCH = 5
NOISE = 1e-3
DRAWS = 500
BY_CHANCE = 5
"""Draws of probes by chance, over which figures are averaged."""

VARIANCES = ("common", "of_class", "of_kind", "class_smooth", "smooth", "rough", "noise")


@dataclass
class HeldOut:
    """Figures of one system from those of others.

    Attributes:
        data: All that was measured.
        left: Name of the system that is predicted.
        belief: What is believed of its layers before any probe.
    """

    data: Ec2
    left: str
    belief: LayerPosterior

    def __post_init__(self) -> None:
        us = self.data.us[self.left]
        self.there = np.flatnonzero(np.isfinite(us))
        self.log_ms = np.log(us[self.there] / 1e3)
        # Only one system had the memory for one of the models. It has dilated convolutions that no
        # other model has, and that no other system measured.
        everywhere = np.all([np.isfinite(each) for each in self.data.us.values()], axis=0)
        some = self.data.counts[:, everywhere].sum(axis=1) > 0
        self.counts = self.data.counts[some][:, self.there]
        self.belief = self.belief.of(self.there)

    def chosen(self, most: int, models: Sequence[int] | None = None) -> Sequence[int]:
        """Layers of some models, those that tell most about the sums over these.

        They are chosen in batches, as the command does: what one shows decides on the next.
        """
        asked = self.counts if models is None else self.counts[list(models)]
        left, found = [int(i) for i in np.flatnonzero(asked.sum(axis=0))], []
        while len(found) < most:
            each = sparse.csr_array(np.eye(len(self.there))[left])
            belief = self.after(found)
            chosen = choose_probes(belief, each, sparse.csr_array(asked), NOISE, RUNS, BATCH)
            found += [left[i] for i in chosen]
            left = [i for i in left if i not in found]
        return found[:most]

    def after(self, probes: Sequence[int]) -> LayerPosterior:
        """Posterior after some layers were timed."""
        if not len(probes):
            return self.belief
        counts = sparse.csr_array(np.eye(len(self.there))[list(probes)])
        log_ms, noise = self.log_ms[list(probes)], np.full(len(probes), NOISE)
        extra = doubt(self.belief, counts, log_ms, noise)
        return self.belief.observed(counts, log_ms, noise + extra)

    def figures(
        self, probes: Sequence[int], models: Sequence[int] | None = None
    ) -> tuple[float, float, float]:
        """Mean absolute error of the models' sums, share within 90% intervals, half-width."""
        counts = self.counts if models is None else self.counts[list(models)]
        draws = np.exp(self.after(probes).draws(DRAWS))
        draws[:, list(probes)] = np.exp(self.log_ms[list(probes)])
        sums = draws @ counts.T
        truth = counts @ np.exp(self.log_ms)
        low, high = np.percentile(sums, (5, 95), axis=0)
        middle = np.median(sums, axis=0)
        inside = (low <= truth) & (truth <= high)
        return (
            float(np.abs(middle / truth - 1).mean()),
            float(inside.mean()),
            float(((high - low) / 2 / middle).mean()),
        )

    def seconds(self, probes: Sequence[int]) -> float:
        """Seconds that the probes cost."""
        return float(
            len(probes) * OVERHEAD_S + RUNS * np.exp(self.log_ms[list(probes)]).sum() / 1e3
        )


@dataclass
class Known:
    """Beliefs about each layer on the known systems, computed once."""

    data: Ec2

    def __post_init__(self) -> None:
        features, kernel = self.data.features, kernel_of("mxnet")
        self.baseline, self.beliefs = expectation(features), {}
        for name in SYSTEMS:
            it = self.data.contribution(name)
            expected = self.baseline(it.system, it.setup.threads)
            prior = LayerPosterior.dense(expected, kernel.covariance(features, features))
            noise = it.noise + kernel.noise
            self.beliefs[name] = prior.observed(it.counts, it.log_ms, noise)

    def transferred(
        self, left: str, known: Sequence[str], kernel: Kernel | None = None
    ) -> LayerPosterior:
        """Posterior of a system from others, by kriging over systems."""
        return transferred(
            [self.beliefs[each] for each in known],
            [(SYSTEMS[each], setup_of(each)) for each in known],
            self.data.features,
            self.baseline,
            (SYSTEMS[left], setup_of(left)),
            kernel,
        )

    def fitted(self, known: Sequence[str], most: int = 500) -> Kernel:
        """The kernel under which the differences between known systems are most probable."""
        features = self.data.features
        chosen = np.sort(np.random.default_rng(0).permutation(len(features.kinds))[:most])
        some = Features(tuple(features.kinds[i] for i in chosen), features.numbers[chosen])
        places = [(SYSTEMS[each], setup_of(each)) for each in known]
        among = np.array([[unlikeness(one, other) for other in places] for one in places])
        means = np.array([self.beliefs[each].mean[chosen] for each in known])
        return _most_probable(some, contrasts(means, among))


def _most_probable(features: Features, differences: np.ndarray) -> Kernel:
    """Type II maximum likelihood over the variances of the kernel; its scales stay."""
    parts = [_part(features, name) for name in VARIANCES]

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        values = np.exp(logs)
        covariance = sum(value * part for value, part in zip(values, parts, strict=True))
        inverse = np.linalg.inv(covariance + 1e-8 * np.eye(len(covariance)))
        solved = inverse @ differences.T
        size = len(differences)
        found = (size * np.linalg.slogdet(covariance)[1] + (differences.T * solved).sum()) / 2
        slopes = [
            value * (size * (inverse * part).sum() - (solved * (part @ solved)).sum()) / 2
            for value, part in zip(values, parts, strict=True)
        ]
        # A weak prior keeps numbers that the data do not tell near 0.02.
        away = logs - np.log(0.02)
        return found + (away**2).sum() / 8, np.array(slopes) + away / 4

    begin = np.full(len(VARIANCES), np.log(0.01))
    bounds = [(-14, 2)] * len(VARIANCES)
    found = optimize.minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds)
    return _kernel(dict(zip(VARIANCES, np.exp(found.x), strict=True)))


def _kernel(variances: dict[str, float]) -> Kernel:
    scales = {name: getattr(difference(), name) for name in ("smooth_scales", "rough_scales")}
    return Kernel(**{**dict.fromkeys(VARIANCES, 0.0), **variances}, **scales)


def _part(features: Features, name: str) -> np.ndarray:
    """Covariance of which one variance is 1 and the others are 0."""
    if name == "noise":
        return np.eye(len(features.kinds))
    return _kernel({name: 1.0}).covariance(features, features)


Believe = Callable[[str, Sequence[str]], LayerPosterior]


def table(data: Ec2, believe: Believe, known_of: Callable[[str], Sequence[str]]) -> None:
    """Prints figures of each system, from the others, for probes that are chosen and by chance."""
    rows = []
    for left in SYSTEMS:
        if not known_of(left):
            continue
        held = HeldOut(data, left, believe(left, known_of(left)))
        chosen = held.chosen(max(PROBES))
        cells = [(*held.figures(chosen[:k]), held.seconds(chosen[:k])) for k in PROBES]
        orders = [np.random.default_rng(i).permutation(len(held.there)) for i in range(BY_CHANCE)]
        chance = [np.mean([held.figures(o[:k])[:2] for o in orders], axis=0) for k in PROBES[1:]]
        rows.append([*cells, *chance])
        print(f"{left:11}", *(_cell(*cell) for cell in cells), "| by chance",
              *(_cell(*cell) for cell in chance), flush=True)  # fmt: skip
    means = [np.mean([row[i] for row in rows], axis=0) for i in range(len(rows[0]))]
    print(f"{'mean':11}", *(_cell(*cell) for cell in means))


def _cell(error: float, inside: float, width: float = 0.0, seconds: float = 0.0) -> str:
    text = f"{error:6.1%} ({inside:4.0%})"
    return text + (f" ±{width:.0%} {seconds:3.0f}s" if width else "")


def halves(data: Ec2, believe: Believe) -> None:
    """Prints figures of models of which no layer was a candidate, for probes of other models."""
    rows = []
    for left in SYSTEMS:
        known = [each for each in SYSTEMS if each != left]
        held = HeldOut(data, left, believe(left, known))
        order = np.random.default_rng(0).permutation(len(held.counts))
        parts = np.array_split(order, 2)
        cells = []
        for asked, others in (parts, parts[::-1]):
            chosen = held.chosen(max(PROBES), others)
            cells.append([held.figures(chosen[:k], asked)[:2] for k in PROBES])
        rows.append(np.mean(cells, axis=0))
        print(f"{left:11}", *(_cell(*cell) for cell in rows[-1]), flush=True)
    print(f"{'mean':11}", *(_cell(*cell) for cell in np.mean(rows, axis=0)))


def main(folder: Path) -> None:
    """Prints all tables."""
    data = Ec2.read(folder)
    known = Known(data)

    def others(left: str) -> Sequence[str]:
        return [each for each in SYSTEMS if each != left]

    def other_processor(left: str) -> Sequence[str]:
        return [each for each in SYSTEMS if SYSTEMS[each].model != SYSTEMS[left].model]

    print("Kriging; the kernel of differences fitted to the known systems alone")
    table(data, lambda left, use: known.transferred(left, use, known.fitted(use)), others)
    print("Kriging; the kernel that comes with the package (fitted to all six)")
    table(data, known.transferred, others)
    print("Kriging; only systems with the other processor are known")
    table(data, known.transferred, other_processor)
    print("Kriging; only c5.xlarge is known")
    table(data, known.transferred, lambda left: ["c5.xlarge"] * (left != "c5.xlarge"))
    print("Kriging as first; models of which no layer was a candidate")
    halves(data, lambda left, use: known.transferred(left, use, known.fitted(use)))
    print(known.fitted(list(SYSTEMS)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
