r"""Fits the factor between errors of predicted models and the spread of their draws.

    python benchmarks/predictor/spread.py

It rests on the models that `discrepancy.py` judged by their systems' own contributions, without
their families, none of their bricks timed. The factor of a model is

    usual * (latency / 20 ms) ** -exponent * own

with one `own` for each contribution. The numbers minimize the pinball loss of the logarithms of
errors at 90%, so that nine of ten models lie in their 90% intervals. Families have equal weight.
Errors of composing and those that bricks share stay as they are. `own` counts half: a
contribution holds nine families. The command prints what each family that was left out is covered
by with none, half and all of it. Nothing is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import refit
from discrepancy import Row, read
from dlbricks_prediction import from_atlas
from dlbricks_prediction.whole_errors import discrepancy_of
from intervals import Z
from scipy import optimize

from dlbricks_core.compose.learned import Learned
from dlbricks_core.figures.predicted import SpreadFactor

COVERED = 0.9
"""Share of the models that intervals are meant to hold."""

SHARES = (0.0, 0.5, 1.0)
"""Shares of a contribution's own factor, in logarithms, that are compared."""

KEPT = 0.5
"""The share that is used."""

_LEAST_OFF = 1e-3
"""Least error whose logarithm is taken."""


def excess(rows: Sequence[Row], spread: SpreadFactor) -> np.ndarray:
    """Logarithm of each error over the half-width of its interval: negative where it is covered."""
    found = []
    for row in rows:
        own = row.judged.spread * spread.of(row.judged.ms)
        common = discrepancy_of(row.backend).predicted
        deviation = np.sqrt(own**2 + Learned.composing_error**2 + common**2)
        found.append(np.log(max(abs(row.judged.off), _LEAST_OFF) / (Z * deviation)))
    return np.array(found)


def loss(rows: Sequence[Row], spread: SpreadFactor) -> float:
    """Pinball loss, in which all families of a contribution have equal weight."""
    over = excess(rows, spread)
    places = [(row.contribution, row.judged.place) for row in rows]
    weights = np.array([1 / places.count(place) for place in places])
    return float((weights * np.maximum(COVERED * over, (COVERED - 1) * over)).sum())


def common(rows: Sequence[Row]) -> SpreadFactor:
    """The factor of all contributions together."""

    def at(numbers: np.ndarray) -> float:
        return loss(rows, SpreadFactor(float(np.exp(numbers[0])), float(numbers[1])))

    best = optimize.minimize(at, [0.0, 0.2], method="Nelder-Mead")
    return SpreadFactor(round(float(np.exp(best.x[0])), 3), round(float(best.x[1]), 3))


def own(rows: Sequence[Row], usual: SpreadFactor) -> float:
    """Logarithm of the factor of one contribution, beside that of all."""

    def at(log: float) -> float:
        return loss(rows, SpreadFactor(usual.usual * np.exp(log), usual.exponent))

    return float(optimize.minimize_scalar(at, bounds=(-2, 1.5), method="bounded").x)


def judge(rows: Sequence[Row]) -> None:
    """Prints the coverage of each family left out, from other systems and from its own."""
    found: dict[float, list[np.ndarray]] = {share: [] for share in SHARES}
    for contribution in sorted({row.contribution for row in rows}):
        here = [row for row in rows if row.contribution == contribution]
        usual = common([row for row in rows if row.system != here[0].system])
        for place in sorted({row.judged.place for row in here}):
            out = [row for row in here if row.judged.place == place]
            log = own([row for row in here if row.judged.place != place], usual)
            for share, each in found.items():
                factor = SpreadFactor(usual.usual * np.exp(share * log), usual.exponent)
                each.append(excess(out, factor))
    for share, each in found.items():
        covered = np.concatenate(each) <= 0
        losses = [np.maximum(COVERED * over, (COVERED - 1) * over).mean() for over in each]
        print(f"own counts {share:.0%}: covered {covered.mean():.1%}, loss {sum(losses):.2f}")


def main() -> None:
    """Prints what is covered, and writes the numbers."""
    rows = [row for row in read() if row.source == "own" and row.judged.timed == 0]
    before = excess(rows, SpreadFactor()) <= 0
    print(f"without the factor: covered {before.mean():.1%}")
    judge(rows)
    usual = common(rows)
    factors = {}
    for name in sorted({row.contribution for row in rows}):
        log = own([row for row in rows if row.contribution == name], usual)
        factors[name.partition("-")[2]] = round(float(np.exp(KEPT * log)), 2)
    print(usual, factors)
    numbers = {"usual": usual.usual, "exponent": usual.exponent, "own": factors}
    refit.write(from_atlas, "spread", numbers, "contributions", "features", "kernel")


if __name__ == "__main__":
    main()
