r"""Errors on systems, generations and makers that the reference data lack, from the data that ship.

    python benchmarks/stranger.py [BACKEND]...

Each file of the reference data in turn is predicted without all files of its system, of its
family of processors, or of its maker. The networks are the largest ones of each family of models
in that file. Predictions are given at the stops of the dial: without a run, with the fixed
characterization benchmarks whose latencies are the machine's rates, with some more of them (drawn
networks, chosen as on a new machine), and with some whole models at hand (of other families than
those judged, each choice of three in turn), alone and with the rates. Their latencies are those of
the file itself, so nothing drifts. The hardest split leaves out the maker of the system that is
least like all others.

The program writes `stranger.csv` beside itself, a row for each file, split and stop, with the day,
and prints the means over files, which `docs/results/strangers.md` has.
`tests/benchmarks/test_stranger.py` computes the rows of one file anew. Nothing is measured. The
program takes a quarter of an hour on two cores.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from dlbricks_prediction import Contribution, shipped
from dlbricks_prediction.atlas import SURVEYED
from dlbricks_prediction.features import NAMES
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior, shares_of
from dlbricks_prediction.nearness import distance
from dlbricks_prediction.rates import rated
from dlbricks_prediction.robust import doubt
from dlbricks_prediction.training_data import described, features_of
from dlbricks_prediction.whole_errors import discrepancy_of
from dlbricks_survey.probes import choose_probes
from scipy import stats

from dlbricks_core.compose.learned import Learned
from dlbricks_core.estimation.adaptive.probing import BATCH
from dlbricks_core.estimation.rates import RUNS
from dlbricks_core.facts import System
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH

TABLE = Path(__file__).with_suffix(".csv")

SPLITS: Mapping[str, Callable[[System], object]] = {
    "system": lambda system: system.fingerprint,
    "generation": lambda system: (system.vendor, system.family),
    "maker": lambda system: system.vendor,
}
"""Property of a system by the name of a split: systems that share it are left out together."""

PROBES, WHOLES = (3, 10, 30), (1, 2, 3, 5)
"""Numbers of characterization benchmarks after the rates, and of whole models at hand."""

WHOLES_BESIDE = 2
"""Number of whole models in addition to the rates."""

NOTHING = "nothing"
"""Name of the stop without a run."""

MOST, CANDIDATES = 60, 80
"""Most networks that are judged in a file, and most drawn networks that may be probes."""

LEAST_LAYERS = 8
"""Least number of layers of a network that is judged."""

CHOICES = 3
"""Number of choices of whole models at hand."""


@dataclass(frozen=True)
class Score:
    """Errors of some predictions.

    Attributes:
        networks: Number of predictions.
        error: Mean relative error.
        bias: Median of the relative errors, with their signs.
        within: Share within 20%.
        half_width: Median half-width of the 90% intervals, relative to the latency.
        covered: Share of the latencies that lie in these intervals.
        rank: Spearman's rank correlation of predicted and measured latencies.
    """

    networks: int
    error: float
    bias: float
    within: float
    half_width: float
    covered: float
    rank: float

    @classmethod
    def of(cls, off: np.ndarray, deviation: np.ndarray, log_ms: np.ndarray) -> Score:
        """Score of predictions.

        Args:
            off: Logarithm of predicted over measured latency of each network.
            deviation: Standard deviation of that logarithm, as believed.
            log_ms: Logarithm of each measured latency.
        """
        relative = np.expm1(off)
        return cls(
            len(off),
            float(np.abs(relative).mean()),
            float(np.median(relative)),
            float((np.abs(relative) <= 0.2).mean()),
            float(np.median(np.sinh(NORMAL_HALF_WIDTH * deviation))),
            float((np.abs(off) <= NORMAL_HALF_WIDTH * deviation).mean()),
            float(stats.spearmanr(log_ms + off, log_ms).statistic),
        )


@dataclass(frozen=True)
class Row:
    """Score of a file at one stop, without the files of one split."""

    day: str
    split: str
    system: str
    backend: str
    threads: int
    stop: str
    score: Score


@dataclass(frozen=True)
class Parts:
    """Networks of a file.

    Attributes:
        it: The networks: first those to judge, then drawn ones.
        judged: Number of networks to judge.
        candidates: Positions of the networks that may be probes.
        rates: Positions of the networks whose latencies are the machine's rates.
    """

    it: Contribution
    judged: int
    candidates: np.ndarray
    rates: np.ndarray


def parts_of(it: Contribution) -> Parts:
    """A file's networks to judge, those that may be probes, and those of the rates.

    Networks of models come from all families in turn, the largest ones first.
    """
    layers = np.asarray(it.counts.sum(axis=1)).ravel()
    drawn = np.array([group.startswith(SURVEYED) for group in it.groups])
    able = np.flatnonzero(~drawn & (layers >= LEAST_LAYERS))
    families: defaultdict[str, list[int]] = defaultdict(list)
    for place in able[np.argsort(-layers[able], kind="stable")]:
        families[it.groups[place]].append(int(place))
    turns = sorted(
        (turn, name, place)
        for name, places in families.items()
        for turn, place in enumerate(places)
    )
    judged = [place for _, _, place in turns[:MOST]]
    probes = sorted(np.flatnonzero(drawn), key=lambda i: crc32(it.signatures[i].encode()))
    probes = [int(each) for each in probes[:CANDIDATES]]
    rates = list(rates_in(it))
    every = [*dict.fromkeys([*judged, *probes, *rates])]
    own = {place: i for i, place in enumerate(every)}
    candidates = np.arange(len(judged), len(judged) + len(probes))
    return Parts(
        it.only(every), len(judged), candidates, np.array([own[i] for i in rates], dtype=np.intp)
    )


def rates_in(it: Contribution) -> Iterator[int]:
    """Positions of the networks of the rates in a file.

    Where a file lacks one, the drawn network of the same family with the nearest number of
    operations and bytes stands for it. Some files hold none of the usual families, and no rates.
    """
    own = {signature: i for i, signature in enumerate(it.signatures)}
    sizes = _sizes(it.features.numbers, it.counts)
    taken: set[int] = set()
    for signature, target in rated().items():
        place = own.get(signature)
        if place is None:
            features = features_of(described(target.brick))
            size = _sizes(features.numbers, np.ones((1, len(features.kinds))))
            alike = [i for i, g in enumerate(it.groups) if g == target.group and i not in taken]
            if not alike:
                continue
            place = min(alike, key=lambda i: float(np.abs(sizes[i] - size).sum()))
        taken.add(place)
        yield place


def _sizes(numbers: np.ndarray, counts: Any) -> np.ndarray:
    """Logarithms of operations and of bytes of networks: shape (networks, 2)."""
    flops = np.exp2(numbers[:, NAMES.index("flops")])
    names = ("read_bytes", "weight_bytes", "written_bytes")
    nbytes = sum(np.exp2(numbers[:, NAMES.index(name)]) for name in names)
    return np.log2(np.asarray(counts @ np.column_stack([flops, nbytes])))


def probed(
    prior: LayerPosterior, parts: Parts, number: int, known: Sequence[int] = ()
) -> LayerPosterior:
    """The belief after some probes, chosen in turns as on a new machine.

    Args:
        prior: The belief before.
        parts: Networks of the file.
        number: Number of probes.
        known: Positions of further networks that were timed before them.
    """
    part, kernel = parts.it, kernel_of(parts.it.setup.backend)
    chosen = np.array(known, dtype=np.intp)
    belief = informed(prior, part, chosen) if len(chosen) else prior
    while (left := number + len(known) - len(chosen)) > 0:
        able = np.setdiff1d(parts.candidates, chosen)
        most = min(BATCH, left)
        asked = part.counts[: parts.judged]
        found = choose_probes(belief, part.counts[able], asked, kernel.noise, RUNS, most)
        if not found:
            break
        chosen = np.append(chosen, able[list(found)])
        belief = informed(prior, part, chosen)
    return belief


def informed(prior: LayerPosterior, part: Contribution, chosen: np.ndarray) -> LayerPosterior:
    """The belief after an observation of some of a file's networks."""
    counts, log_ms, call_ms = part.counts[chosen], part.log_ms[chosen], part.call_ms[chosen]
    noise = part.noise[chosen] + kernel_of(part.setup.backend).noise
    extra = doubt(prior, counts, log_ms, noise, call_ms)
    return prior.observed(counts, log_ms, noise + extra, call_ms)


def errors(
    belief: LayerPosterior, part: Contribution, judged: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of predicted over measured latencies, and their believed standard deviations."""
    counts = part.counts[judged]
    shares, ms = shares_of(counts, belief.mean, part.call_ms[judged])
    common = discrepancy_of(part.setup.backend, stranger=True).predicted
    variance = np.diag(belief.between(shares)) + common**2 + Learned.composing_error**2
    return np.log(ms) - part.log_ms[judged], np.sqrt(variance)


def scores(it: Contribution, others: Sequence[Contribution]) -> Iterator[tuple[str, Score]]:
    """Scores of a file by the stop, from the files of others."""
    parts = parts_of(it)
    part, every = parts.it, np.arange(parts.judged)
    prior = believed(part.features, it.setup, it.system, others)

    def of(belief: LayerPosterior) -> Score:
        return Score.of(*errors(belief, part, every), part.log_ms[every])

    yield NOTHING, of(prior)
    for number in WHOLES:
        yield f"{number} wholes", _of_wholes(prior, parts, number)
    if len(parts.rates):
        yield "rates", of(informed(prior, part, parts.rates))
        for number in PROBES:
            after = probed(prior, parts, number, parts.rates.tolist())
            yield f"rates, {number} probes", of(after)
        beside = _of_wholes(prior, parts, WHOLES_BESIDE, parts.rates)
        yield f"rates, {WHOLES_BESIDE} wholes", beside


_NONE = np.zeros(0, dtype=np.intp)


def _of_wholes(
    prior: LayerPosterior, parts: Parts, number: int, known: np.ndarray = _NONE
) -> Score:
    """Score with some whole models at hand, over all choices of them."""
    found = [at_hand(prior, parts, number, choice, known) for choice in range(CHOICES)]
    return Score.of(*map(np.concatenate, zip(*found, strict=True)))


def at_hand(
    prior: LayerPosterior, parts: Parts, number: int, choice: int, known: np.ndarray = _NONE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors on networks of other families than those of some whole models at hand."""
    part, judged = parts.it, parts.judged
    order = np.random.default_rng(choice).permutation(judged)
    _, first = np.unique([part.groups[i] for i in order], return_index=True)
    chosen = order[np.sort(first)][:number]
    families = {part.groups[i] for i in chosen}
    rest = np.array([i for i in range(judged) if part.groups[i] not in families])
    belief = informed(prior, part, np.concatenate([known, chosen]))
    return *errors(belief, part, rest), part.log_ms[rest]


def others_of(it: Contribution, split: str) -> tuple[Contribution, ...]:
    """Files of a file's backend that a split leaves."""
    of = SPLITS[split]
    return tuple(e for e in shipped(it.setup.backend) if of(e.system) != of(it.system))


def rows(it: Contribution) -> Iterator[Row]:
    """Rows of a file, for splits that leave files of others."""
    day, found = f"{datetime.now(UTC):%Y-%m-%d}", {}
    for split in SPLITS:
        others = others_of(it, split)
        if not others:
            continue
        if others not in found:
            found[others] = list(scores(it, others))
        name = it.system.microarchitecture
        for stop, score in found[others]:
            yield Row(day, split, name, it.setup.backend, it.setup.threads, stop, score)


def listed(it: Contribution) -> list[Row]:
    """Rows of a file, for another process."""
    return list(rows(it))


def hardest(every: Sequence[System]) -> str:
    """Microarchitecture of the system that is least like all others."""

    def nearest(one: System) -> float:
        return min(distance(one, each) for each in every if each is not one)

    return max(every, key=nearest).microarchitecture


def write(found: Sequence[Row]) -> None:
    """Writes the table, with four decimal places."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        names = [each.name for each in fields(Row)[:-1]]
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, *(each.name for each in fields(Score))])
        for row in found:
            count, *numbers = asdict(row.score).values()
            own = (getattr(row, name) for name in names)
            writer.writerow([*own, count, *(f"{each:.4f}" for each in numbers)])


def read() -> list[Row]:
    """The rows of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            Row(
                *(each[name] for name in ("day", "split", "system", "backend")),
                int(each["threads"]),
                each["stop"],
                Score(int(each["networks"]), *(float(each[f.name]) for f in fields(Score)[1:])),
            )
            for each in csv.DictReader(file)
        ]


def shown(found: Sequence[Row], alone: str) -> list[str]:
    """Lines of a table in Markdown: means over files, by backend and stop.

    Each cell has the mean error, the share within 20%, the half-width, the coverage, and the rank
    correlation.

    Args:
        found: The rows.
        alone: Microarchitecture of the system that is least like all others.
    """
    groups: defaultdict[tuple[str, str], defaultdict[str, list[Score]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in found:
        cells = groups[row.backend, row.stop]
        cells[f"each {row.split}"].append(row.score)
        if row.split == "maker" and row.system == alone:
            cells["hardest"].append(row.score)
    columns = [*(f"each {split}" for split in SPLITS), "hardest"]
    lines = [f"| {max(row.day for row in found)} | | {' | '.join(columns)} |", "|---" * 6 + "|"]
    for (backend, stop), cells in groups.items():
        line = [backend, stop, *(_cell(cells[name]) if name in cells else "-" for name in columns)]
        lines.append(f"| {' | '.join(line)} |")
    return lines


def _cell(scores: Sequence[Score]) -> str:
    _, error, _, within, half_width, covered, rank = np.mean(
        [[*asdict(each).values()] for each in scores], axis=0
    )
    return f"{error:.0%}, {within:.0%}, ±{half_width:.0%}, {covered:.0%}, {rank:.2f}"


def systems() -> list[System]:
    """All systems of the reference data."""
    return [*{each.system.fingerprint: each.system for each in shipped()}.values()]


def with_others() -> list[Contribution]:
    """Contributions of backends of which another system has one, too."""
    every = shipped()
    systems = {backend: {e.system.microarchitecture for e in every if e.setup.backend == backend}
               for backend in {e.setup.backend for e in every}}  # fmt: skip
    return [each for each in every if len(systems[each.setup.backend]) > 1]


def main(*backends: str) -> None:
    """Judges all files of some backends, or all files."""
    judged = [e for e in with_others() if not backends or e.setup.backend in backends]
    found: list[Row] = []
    with ProcessPoolExecutor() as pool:
        for it, own in zip(judged, pool.map(listed, judged), strict=True):
            found += own
            place = f"{it.system.microarchitecture} {it.setup.backend} {it.setup.threads}"
            print(place, file=sys.stderr)
    if not backends:
        write(found)
        found = read()  # rounded as in the file
    print(*shown(found, hardest(systems())), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
