"""The predictor that starts from the atlas, and learns from what was measured here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import RESAMPLES, Figure, Predicted
from dlbricks_core.predict.atlas import Contribution, LayerTable, counts_matrix
from dlbricks_core.predict.base import Predictor
from dlbricks_core.predict.baseline import Processor, expected_ms
from dlbricks_core.predict.belief import Belief
from dlbricks_core.predict.features import Features, joined
from dlbricks_core.predict.kernel import Kernel
from dlbricks_core.predict.nearness import distance
from dlbricks_core.predict.sampling import agreeing_draws

MOST_NETWORKS = 1500
"""Most networks of a contribution that a prediction rests on: those nearest to what is asked."""

MOST_CONTRIBUTIONS = 6
"""Most contributions that a prediction rests on: those of the nearest systems."""

_REACH = 0.5
"""Distance of a system over which the weight of its contribution falls to 37%."""

_ELSEWHERE = 0.3
"""Variance, for each unit of distance to the nearest system, as a share of the kernel's: how far
an unknown system is from what the known ones have in common."""

_HERE = 0.02
"""The same share for a system that the atlas holds: machines drift from day to day."""

_THREADS = 0.5
"""Distance of setups of which one has twice the threads of the other."""

_KERNELS = Path(__file__).parent / "kernels.json"


class FromAtlas(Predictor):
    """Gaussian process over layers, conditioned on the atlas and on what was measured here.

    What contributions of near systems tell is mixed; what they differ in becomes an uncertainty
    that all layers share, and the first measurements here resolve it.
    """

    name = "atlas"

    def predict(
        self,
        bricks: Mapping[str, Brick],
        setup: Setup,
        system: System,
        known: Mapping[str, Figure],
        atlas: Sequence[Contribution] = (),
    ) -> Mapping[str, Predicted]:
        """Latencies of all bricks, in milliseconds.

        Those of known bricks are what is believed of them in the middle of a model: their figures
        also hold what handing over their inputs and outputs costs.
        """
        table = LayerTable()
        inside = {s: table.add(Features.of(brick.model)) for s, brick in bricks.items()}
        alone = [
            table.add(joined([Features.of(bricks[s].model), Features.of_ends(bricks[s].model)]))
            for s in known
        ]
        layers = len(table.kinds)
        belief = believed(table.features, setup, system, atlas)
        log_ms = np.log([figure.value for figure in known.values()])
        call_ms = np.array([figure.overhead for figure in known.values()])
        scatter = np.array([_scatter(figure) for figure in known.values()])
        kernel = kernel_of(setup.backend)
        found = agreeing_draws(
            belief,
            counts_matrix(alone, layers),
            log_ms,
            scatter + kernel.noise,
            call_ms,
            count=RESAMPLES,
        )
        draws = np.exp(found) @ counts_matrix(inside.values(), layers).T.toarray()
        return {
            signature: Predicted(float(each.mean()), each)
            for signature, each in zip(inside, draws.T, strict=True)
        }


def believed(
    asked: Features, setup: Setup, system: System, atlas: Sequence[Contribution]
) -> Belief:
    """What the atlas tells about the latencies of layers on a system.

    Args:
        asked: Features of the layers.
        setup: How they run.
        system: Where they run.
        atlas: Contributions of any systems and setups.

    Returns:
        Belief about the logarithms of the layers' latencies in milliseconds.
    """
    kernel = kernel_of(setup.backend)
    here = np.log(expected_ms(asked, Processor.of(system, setup.threads)))
    spread = kernel.covariance(asked, asked)
    near = _near(setup, system, atlas)
    if not near:
        return Belief(here, spread)
    beliefs = []
    for contribution, _ in near:
        there = Processor.of(contribution.system, contribution.setup.threads)
        belief = belief_from(contribution, asked, kernel, there)
        # What is learned elsewhere is how far the baseline is off.
        beliefs.append(replace(belief, mean=belief.mean - np.log(expected_ms(asked, there))))
    least = near[0][1]
    mixed = Belief.mixed(beliefs, [math.exp(-(far - least) / _REACH) for _, far in near])
    share = _HERE + _ELSEWHERE * min(least, 1.0)
    return Belief(mixed.mean + here, mixed.covariance + share * spread)


def _near(
    setup: Setup, system: System, atlas: Sequence[Contribution]
) -> list[tuple[Contribution, float]]:
    """Contributions of the backend, the nearest first, each with its distance.

    Those of this very setup and system make all others superfluous.
    """
    found = [
        (each, _distance(each, setup, system))
        for each in atlas
        if each.setup.backend == setup.backend
    ]
    found.sort(key=lambda pair: pair[1])
    same = [pair for pair in found if not pair[1]]
    return same or found[:MOST_CONTRIBUTIONS]


def _distance(contribution: Contribution, setup: Setup, system: System) -> float:
    octaves = abs(math.log2(contribution.setup.threads / setup.threads))
    return distance(contribution.system, system) + _THREADS * octaves


def belief_from(
    contribution: Contribution, asked: Features, kernel: Kernel, processor: Processor
) -> Belief:
    """What one contribution tells about the latencies of layers on its own system.

    Args:
        contribution: Measured networks.
        asked: Features of the layers.
        kernel: How errors of the baseline hang together.
        processor: What the baseline knows of the contribution's system.

    Returns:
        Belief about the logarithms of the layers' latencies in milliseconds.
    """
    near = contribution.only(nearest(contribution, asked, kernel, MOST_NETWORKS))
    every = joined([near.features, asked])
    prior = Belief(np.log(expected_ms(every, processor)), kernel.covariance(every, every))
    counts = near.counts.copy()
    counts.resize((len(near), len(every.kinds)))
    found = prior.observed(counts, near.log_ms, near.noise + kernel.noise, near.call_ms)
    begin = len(near.features.kinds)
    return found.of(range(begin, len(every.kinds)))


def nearest(
    contribution: Contribution, asked: Features, kernel: Kernel, most: int
) -> Sequence[int]:
    """Networks of a contribution that tell most about layers: whose own layers are most alike."""
    if len(contribution) <= most:
        return range(len(contribution))
    alike = kernel.covariance(asked, contribution.features).max(axis=0)
    counts = contribution.counts
    score = (counts @ alike) / np.asarray(counts.sum(axis=1)).ravel()
    return [int(i) for i in np.sort(np.argsort(-score, kind="stable")[:most])]


def _scatter(figure: Figure) -> float:
    """Variance of the logarithm of a figure, as its samples scatter."""
    return float(np.var(figure.replicates)) / max(figure.value, 1e-6) ** 2


@cache
def kernel_of(backend: str) -> Kernel:
    """The kernel that was fitted to a backend; that of all backends for an unknown one."""
    kernels = json.loads(_KERNELS.read_text())
    return Kernel.from_dict(kernels.get(backend, kernels["*"]))
