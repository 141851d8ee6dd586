"""Compares model classes on the same features and baseline, with families held out.

    pip install scikit-learn lightgbm
    python benchmarks/predictor/classes.py CONTRIBUTION...

Ridge regression and gradient boosting predict the logarithm of measured over expected latency of a
network from its expected latency by class of layer. Their predictions of whole networks (those of
many layers) are compared with measured latencies. The Gaussian process is scored by
``held_out.py``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import lightgbm
import numpy as np
from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.baseline import expected_ms
from dlbricks_prediction.from_contribution import processor_of
from dlbricks_prediction.kinds import class_of
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler

WHOLE = 11
"""Least number of different layers of a network that counts as a whole one."""


def table(contribution: Contribution) -> tuple[np.ndarray, np.ndarray]:
    """Features of networks, and the logarithm of measured over expected latency."""
    expected = expected_ms(contribution.features, processor_of(contribution))
    kinds = contribution.features.kinds
    columns = sorted({kind.partition("@")[0] for kind in kinds} | {class_of(k) for k in kinds})
    parts = np.array([[name in (kind.partition("@")[0], class_of(kind)) for name in columns]
                      for kind in kinds])  # fmt: skip
    counts = contribution.counts
    by_class = counts @ (parts * expected[:, None])
    total = counts @ expected + contribution.call_ms
    numbers = counts @ (contribution.features.numbers * expected[:, None]) / total[:, None]
    features = np.hstack([np.log(total)[:, None], by_class / total[:, None], numbers])
    return features, contribution.log_ms - np.log(total)


def held_out(contribution: Contribution, family: str) -> np.ndarray:
    """Whether each network has something of a family."""
    return np.array([family in group.split(",") for group in contribution.groups])


def main(paths: list[Path]) -> None:
    """Prints the mean error of each class for each contribution."""
    warnings.filterwarnings("ignore")
    for path in paths:
        contribution = Contribution.read(path)
        features, left = table(contribution)
        sizes = np.diff(contribution.counts.indptr)
        surveyed = np.array([group.startswith("survey:") for group in contribution.groups])
        whole = (sizes >= WHOLE) & ~surveyed
        families = sorted({f for i in np.flatnonzero(whole)
                           for f in contribution.groups[i].split(",")})  # fmt: skip
        errors: dict[str, list[float]] = {"ridge": [], "boosting": []}
        for family in families:
            out = held_out(contribution, family)
            scaler = StandardScaler().fit(features[~out])
            models = {
                "ridge": RidgeCV(np.logspace(-3, 3, 13)),
                "boosting": lightgbm.LGBMRegressor(n_estimators=400, learning_rate=0.05,
                                                   min_child_samples=5, verbose=-1, n_jobs=1),
            }  # fmt: skip
            for name, model in models.items():
                model.fit(scaler.transform(features[~out]), left[~out])
                chosen = out & whole
                guess = model.predict(scaler.transform(features[chosen]))
                errors[name] += list(np.abs(np.exp(guess - left[chosen]) - 1))
        for name, each in errors.items():
            near = np.mean(np.array(each) < 0.2)
            print(f"{path.stem} {name}: {np.mean(each):.1%} of {len(each)}, {near:.0%} within 20%")


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
