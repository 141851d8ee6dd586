"""Compares kernels that are fitted to several numbers of threads with one fitted to a single one.

    python benchmarks/predictor/threads.py BACKEND [FOLDS]

Families of models are dealt into folds. For each fold, kernels are fitted to networks without its
families: to those of the largest number of threads, and to those of all. Then models, segments and
single layers of the fold are predicted from networks without its families, with each kernel and
with the one that comes with the package. Only the package's own contributions are read; nothing is
measured. The package's own kernel saw some families of each fold. Of what surveys draw, only the
first networks count: those that all sessions have in common.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from zlib import crc32

import fit
import numpy as np
from dlbricks_prediction import Contribution, shipped
from dlbricks_prediction.from_contribution import prior_of, processor_of
from dlbricks_prediction.kernel import Kernel, kernel_of
from dlbricks_survey.networks import FIRST, draw

fit.MOST = 250  # the time of a fit grows with the cube of it, and there are several

DRAWN, CUT = 400, 500
"""Networks that predictions rest on: those of the survey, and those that were cut from models."""

MOST_JUDGED = 150
"""Networks of each sort and fold that are predicted."""

SIZES = {"layers": (1, 1), "segments": (2, 10), "models": (41, 10**6)}
"""Least and most layers of each sort of network."""

_ENDS = ("enter:", "leave:")


@dataclass(frozen=True)
class Parts:
    """Some networks of one contribution.

    Attributes:
        all: All of them.
        learned: Positions of those to learn from.
        judged: Positions of those to predict, by their sort.
    """

    all: Contribution
    learned: range
    judged: Mapping[str, range]


def parts(contribution: Contribution, fold: int, folds: int) -> Parts:
    """Networks without the families of a fold, and some of those with one of them."""
    random = np.random.default_rng(fold)
    groups = [group.split(",") for group in contribution.groups]
    drawn = np.array([any(name.startswith("survey:") for name in names) for names in groups])
    first = {each.brick.signature for each in islice(draw(), FIRST)}
    drawn_first = drawn & [signature in first for signature in contribution.signatures]
    out = np.array([any(crc32(n.encode()) % folds == fold for n in names) for names in groups])
    out &= ~drawn
    layers = [i for i, k in enumerate(contribution.features.kinds) if not k.startswith(_ENDS)]
    sizes = np.asarray(contribution.counts[:, layers].sum(axis=1)).ravel()

    def some(chosen: np.ndarray, most: int) -> list[int]:
        return sorted(map(int, random.permutation(np.flatnonzero(chosen))[:most]))

    chosen = some(drawn_first, DRAWN) + some(~drawn & ~out, CUT)
    learned, judged = range(len(chosen)), {}
    for name, (least, most) in SIZES.items():
        begin = len(chosen)
        chosen += some(out & (sizes >= least) & (sizes <= most), MOST_JUDGED)
        judged[name] = range(begin, len(chosen))
    return Parts(contribution.only(chosen), learned, judged)


def errors(found: Parts, kernel: Kernel) -> dict[str, np.ndarray]:
    """Logarithms of predicted over measured latency, by the sort of network."""
    it, own = found.all, list(found.learned)
    prior = prior_of(it.features, kernel, processor_of(it))
    noise = it.noise[own] + kernel.noise
    given = it.counts[own], it.log_ms[own], noise, it.call_ms[own]
    mean = prior.mean + prior.spread.times(prior.pulls(*given))
    off = np.log(it.counts @ np.exp(mean) + it.call_ms) - it.log_ms
    return {name: off[list(judged)] for name, judged in found.judged.items()}


def kernels(own: Sequence[Contribution]) -> dict[str, Kernel]:
    """Kernels fitted to the contribution of most threads alone, and to all of them."""
    return {f"{own[-1].setup.threads} threads": fit.fitted([own[-1]]), "all": fit.fitted(own)}


def main(backend: str, folds: str = "3") -> None:
    """Prints a line for each kernel, number of threads and sort of network."""
    own = sorted(shipped(backend), key=lambda each: each.setup.threads)
    found: defaultdict[tuple[int, str, str], list[np.ndarray]] = defaultdict(list)
    for fold in range(int(folds)):
        divided = [parts(each, fold, int(folds)) for each in own]
        learned = [each.all.only(each.learned) for each in divided]
        every = {"package's": kernel_of(backend), **kernels(learned)}
        for each in divided:
            for name, kernel in every.items():
                for sort, off in errors(each, kernel).items():
                    found[each.all.setup.threads, name, sort].append(off)
        print(f"fold {fold + 1} of {folds} is done", flush=True)
    print("threads  kernel      sort        networks     bias  mean error  median error")
    for (threads, name, sort), each in sorted(found.items(), key=lambda item: item[0][::2]):
        off = np.concatenate(each)
        relative = np.abs(np.expm1(off))
        print(
            f"{threads:7}  {name:<10}  {sort:<10}{len(off):10}{off.mean():+9.1%}"
            f"{relative.mean():12.1%}{np.median(relative):14.1%}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
