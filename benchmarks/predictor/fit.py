"""Fits the kernels of the predictor "atlas" to contributions, one for each backend.

    python benchmarks/predictor/fit.py CONTRIBUTION...

The numbers are those that make the measured latencies most probable (type II maximum likelihood),
found by Adam with torch's gradients. Sums over layers are linear in the layers' logarithms close to
what is believed, so the belief and the numbers are found in turns. They replace the group `kernel`
of `fitted.json` in `plugins/prediction`. Contributions have to be packed again with them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import refit
import torch
from dlbricks_prediction import from_atlas
from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.features import NAMES
from dlbricks_prediction.kernel import Kernel
from dlbricks_prediction.kinds import class_of
from dlbricks_prediction.layer_posterior import LayerPosterior, shares_of

VARIANCES = ("common", "of_class", "of_kind", "class_smooth", "smooth", "rough", "noise", "own")
SCALES = ("smooth_scales", "rough_scales")
START = Kernel(0.3, 0.2, 0.2, 0.2, 0.5, 0.1, (4.0,) * len(NAMES), (1.5,) * len(NAMES), 0.002, 0.02)
MOST = 700
"""Most networks of a contribution: a fit takes the cube of it."""


class Part:
    """A contribution, or some of its networks, with what does not depend on the kernel."""

    def __init__(self, contribution: Contribution, seed: int) -> None:
        random = np.random.default_rng(seed)
        chosen = np.sort(random.permutation(len(contribution))[:MOST])
        self.it = it = contribution.only([int(i) for i in chosen])
        processor = Processor.of(it.system, it.setup.threads)
        self.expected = np.log(expected_ms(it.features, processor))
        self.numbers = torch.tensor(it.features.numbers)
        self.same = {
            "kind": torch.tensor(_same(it.features.kinds)),
            "class": torch.tensor(_same([class_of(k) for k in it.features.kinds])),
        }
        self.believe(START)

    def believe(self, kernel: Kernel) -> None:
        """Computes the shares of layers in networks anew."""
        it = self.it
        prior = LayerPosterior.dense(self.expected, kernel.covariance(it.features, it.features))
        mean = prior.observed(it.counts, it.log_ms, it.noise + kernel.noise, it.call_ms).mean
        shares, totals = shares_of(it.counts, mean, it.call_ms)
        left = it.log_ms - np.log(totals) + shares @ (mean - self.expected)
        self.shares, self.left = torch.tensor(shares.toarray()), torch.tensor(left)
        self.scatter = torch.tensor(it.noise)

    def loss(self, logs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Negative logarithm of the likelihood, for each network."""
        v = {name: torch.exp(logs[name]) for name in (*VARIANCES, *SCALES)}
        smooth = torch.exp(-_squares(self.numbers / v["smooth_scales"]) / 2)
        distance = torch.sqrt(5 * _squares(self.numbers / v["rough_scales"]) + 1e-12)
        rough = (1 + distance + distance**2 / 3) * torch.exp(-distance)
        covariance = v["common"] + self.same["class"] * (v["of_class"] + v["class_smooth"] * smooth)
        covariance = covariance + self.same["kind"] * (
            v["of_kind"] + v["smooth"] * smooth + v["rough"] * rough
        )
        covariance = covariance + v["own"] * torch.eye(len(covariance), dtype=torch.double)
        matrix = self.shares @ covariance @ self.shares.T + torch.diag(self.scatter + v["noise"])
        factor = torch.linalg.cholesky(matrix)
        solved = torch.linalg.solve_triangular(factor, self.left[:, None], upper=False)
        return ((solved**2).sum() / 2 + torch.log(torch.diag(factor)).sum()) / len(self.left)


def fitted(contributions: Sequence[Contribution], turns: int = 3, steps: int = 25) -> Kernel:
    """The kernel under which what the contributions measured is most probable."""
    parts = [Part(each, seed) for seed, each in enumerate(contributions)]
    start = {name: np.log(asdict(START)[name]) for name in (*VARIANCES, *SCALES)}
    logs = {
        name: torch.tensor(value, dtype=torch.double, requires_grad=True)
        for name, value in start.items()
    }
    optimizer = torch.optim.Adam(logs.values(), lr=0.08)
    kernel = START
    for _ in range(turns):
        for _ in range(steps):
            optimizer.zero_grad()
            total = sum(part.loss(logs) for part in parts) / len(parts)
            # A weak prior keeps numbers that the data do not tell near where they began.
            prior = sum(((logs[n] - torch.tensor(start[n])) ** 2).sum() for n in logs)
            (total + 2e-3 * prior).backward()
            optimizer.step()
        values = {name: np.exp(each.detach().numpy()).tolist() for name, each in logs.items()}
        kernel = Kernel.from_dict(values)
        for part in parts:
            part.believe(kernel)
        print(
            f"{float(total.detach()):.3f}", {n: round(values[n], 4) for n in VARIANCES}, flush=True
        )
    return kernel


def _same(names: Sequence[str]) -> np.ndarray:
    codes = np.unique(names, return_inverse=True)[1]
    return (codes[:, None] == codes[None, :]).astype(float)


def _squares(scaled: torch.Tensor) -> torch.Tensor:
    sizes = (scaled**2).sum(1)
    return torch.clamp(sizes[:, None] + sizes[None, :] - 2 * scaled @ scaled.T, min=0)


def main(sources: Sequence[Path]) -> None:
    """Fits one kernel for each backend, and one for all of them."""
    by_backend = defaultdict(list)
    for each in map(Contribution.read, sources):
        by_backend[each.setup.backend].append(each)
    kernels = {}
    for backend, found in by_backend.items():
        print(backend)
        kernels[backend] = asdict(fitted(found))
    every = [found[0] for found in by_backend.values()]
    kernels["*"] = asdict(fitted(every))
    refit.write(from_atlas, "kernel", kernels, "features")


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
