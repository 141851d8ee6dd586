r"""Fits the errors that bricks of one model share on each backend, and judges them by system.

    python benchmarks/predictor/discrepancy.py onnx: mxnet: [--own]

Predictions of the models are judged as in `intervals.py`, for each contribution that holds them.
They rest on the system's own contribution without the models' families (`own`), or on those of all
other systems (`others`). `judged.csv` beside this file keeps what was judged; what it has of
today's contributions is not judged again, so that an interrupted run goes on where it ended. A
contribution takes one to ten minutes.

Two numbers maximize the likelihood of what was judged by the systems' own contributions, in
addition to the predictor's draws and the error of composing. All families have equal weight, and so
have all shares of timed bricks. Each system in turn is left out of the fit and covered by it. The
numbers replace those of a backend if systems that were left out are no less probable with them.
Nothing is measured. With --own, nothing is judged by other systems, which takes most of the time.
The numbers do not depend on that.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import refit
from dlbricks_prediction import Contribution, from_atlas, shipped
from dlbricks_prediction.atlas import FOLDER
from dlbricks_prediction.whole_errors import discrepancy_of
from intervals import SHARES, Judged, Z, cut_as_predicted, deviations, judged, judged_from
from scipy import optimize

from dlbricks_core.bricks import BrickSet
from dlbricks_core.figures.predicted import Discrepancy

RECORDS = Path(__file__).with_name("judged.csv")

COMMON = "*"
"""Name under which the numbers of all backends together are kept."""


@dataclass(frozen=True)
class Row:
    """A judged prediction.

    Attributes:
        contribution: Name of the contribution that it was compared with.
        source: What it rests on, a key of ``SOURCES``.
        digest: Digest of that contribution or of all, and of the kernels.
        judged: The prediction.
    """

    contribution: str
    source: str
    digest: str
    judged: Judged

    @property
    def system(self) -> str:
        """Name of the system."""
        return self.contribution.rsplit("-", 2)[0]

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self.contribution.rsplit("-", 2)[1]


def from_others(brickset: BrickSet, it: Contribution) -> Iterator[Judged]:
    """Predictions of all models from the contributions of all other systems."""
    backend, here = it.setup.backend, it.system.fingerprint
    others = [each for each in shipped(backend) if each.system.fingerprint != here]
    return judged_from(others, brickset.models, brickset, it)


SOURCES: Mapping[str, Callable[[BrickSet, Contribution], Iterator[Judged]]] = {
    "own": judged,
    "others": from_others,
}
"""Predictions by what they rest on."""


def recorded(brickset: BrickSet, sources: Collection[str]) -> list[Row]:
    """Judged predictions by some sources; those that are missing are judged and written first."""
    before, rows = read(), []
    wholes = {cut.whole.signature for cut in brickset.models}
    for path in sorted(FOLDER.glob("*.npz")):
        it = Contribution.read(path)
        if wholes.isdisjoint(it.signatures):
            continue
        for source in sources:
            digest = refit.digest(_rests_on(path, source).encode(), refit.kernels().encode())
            known = [row for row in before if _key(row) == (path.stem, source, digest)]
            if not known:
                print(f"judging {path.stem} by {source}", flush=True)
                known = [
                    Row(path.stem, source, digest, each) for each in SOURCES[source](brickset, it)
                ]
            rows += known
            done = {(row.contribution, row.source) for row in rows}
            rest = [row for row in before if (row.contribution, row.source) not in done]
            write([*rows, *rest])
    rest = [row for row in before if row.source not in sources]
    write(sorted([*rows, *rest], key=lambda row: (row.contribution, [*SOURCES].index(row.source))))
    return rows


def _rests_on(path: Path, source: str) -> str:
    return refit.contributions([path] if source == "own" else None)


def _key(row: Row) -> tuple[str, str, str]:
    return row.contribution, row.source, row.digest


_KEY = ("contribution", "source", "digest")
_JUDGED = tuple(field.name for field in fields(Judged))


def read() -> list[Row]:
    """Predictions that were judged before."""
    if not RECORDS.exists():
        return []
    with RECORDS.open(encoding="utf-8", newline="") as file:
        return [
            Row(
                *(each[name] for name in _KEY),
                Judged(each["place"], *(float(each[name]) for name in _JUDGED[1:])),
            )
            for each in csv.DictReader(file)
        ]


def write(rows: Sequence[Row]) -> None:
    """Writes predictions that were judged, with four decimal places."""
    with RECORDS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*_KEY, *_JUDGED])
        for row in rows:
            place, *numbers = asdict(row.judged).values()
            short = (f"{number:.4f}" for number in numbers)
            writer.writerow([*_key(row), place, *short])


def fitted(rows: Sequence[Row]) -> Discrepancy:
    """Most probable errors that bricks of a model share."""

    def loss(logs: np.ndarray) -> float:
        return surprise(rows, Discrepancy(*np.exp(logs)))

    best = optimize.minimize(loss, np.log([0.05, 0.03]), method="Nelder-Mead", bounds=[(-7, 0)] * 2)
    return Discrepancy(*(round(float(each), 4) for each in np.exp(best.x)))


def surprise(rows: Sequence[Row], discrepancy: Discrepancy) -> float:
    """Mean negative logarithm of the probability density of the errors."""
    places = [(row.contribution, row.judged.place, row.judged.timed) for row in rows]
    often = Counter(places)
    weights = np.array([1 / often[place] for place in places])
    off = np.array([row.judged.off for row in rows])
    variance = deviations([row.judged for row in rows], discrepancy) ** 2
    return float((weights * (np.log(variance) + off**2 / variance)).sum() / weights.sum() / 2)


def left_out(rows: Sequence[Row]) -> Iterator[tuple[str, Discrepancy]]:
    """Each system of some rows, and the errors that those of the other systems show."""
    own = [row for row in rows if row.source == "own"]
    for system in sorted({row.system for row in own}):
        if others := [row for row in own if row.system != system]:
            yield system, fitted(others)


def refitted(backend: str, rows: Sequence[Row]) -> Discrepancy:
    """Errors of a backend: new ones if these cover systems that were left out no worse."""
    before, surprises = discrepancy_of(backend), []
    for system, after in left_out(rows):
        print(f"\n{backend} without {system}: {after}")
        for source in SOURCES:
            own = [row for row in rows if (row.system, row.source) == (system, source)]
            if not own:
                continue
            for name, each in (("before", before), ("after", after)):
                print(f"  {source:6} {name:6} {_covered(own, each)}")
        own = [row for row in rows if (row.system, row.source) == (system, "own")]
        surprises.append(surprise(own, after) - surprise(own, before))
    new = fitted([row for row in rows if row.source == "own"])
    better = bool(surprises) and np.mean(surprises) <= 0
    print(f"{backend}: {new if better else before}, {'new' if better else 'as before'}")
    return new if better else before


def _covered(rows: Sequence[Row], discrepancy: Discrepancy) -> str:
    """Error, coverage and half-width at each share of timed bricks, and the surprise by all."""
    cells = []
    for share in SHARES:
        some = [row.judged for row in rows if row.judged.timed == share]
        off, deviation = np.array([each.off for each in some]), deviations(some, discrepancy)
        covered = np.mean(np.abs(off) <= Z * deviation)
        error = np.abs(np.expm1(off)).mean()
        cells.append(f"{error:5.1%} {covered:4.0%} ±{Z * np.median(deviation):3.0%}")
    return f"{' | '.join(cells)} | {surprise(rows, discrepancy):+.3f}"


def numbers_of(found: Discrepancy) -> dict[str, float]:
    """Both numbers that this command fits; `spread.py` fits the others."""
    return {"predicted": found.predicted, "measured": found.measured}


def main() -> None:
    """Prints what is covered, and writes the numbers of each backend and of all together."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--own", action="store_true")
    given = parser.parse_args()
    rows = recorded(cut_as_predicted(given.models), ["own"] if given.own else SOURCES)
    print(f"shares of timed bricks: {SHARES}; mean error, covered, half-width; surprise")
    numbers = {COMMON: numbers_of(refitted(COMMON, rows))}
    for backend in sorted({row.backend for row in rows}):
        own = [row for row in rows if row.backend == backend]
        numbers[backend] = numbers_of(refitted(backend, own))
    refit.write(from_atlas, "discrepancy", numbers, "contributions", "features", "kernel")


if __name__ == "__main__":
    main()
