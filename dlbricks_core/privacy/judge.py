"""Attack by traits: classifiers that learn on other models' suites what decoys look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dlbricks_core.bricks import Brick
from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.privacy.traits import traits


@dataclass(frozen=True)
class Example:
    """A suite of which it is known what is true: the attacker has made it himself.

    Attributes:
        group: What the suite's model belongs to; examples of one group never judge each other.
        true: Bricks of the model.
        decoys: The other bricks.
    """

    group: str
    true: Sequence[Brick]
    decoys: Sequence[Brick]

    @cached_property
    def traits(self) -> FloatArray:
        """Traits of the true bricks, then of the decoys."""
        return traits([*self.true, *self.decoys])

    @property
    def labels(self) -> FloatArray:
        """1 for true bricks, 0 for decoys, in the same order."""
        return np.repeat([1.0, 0.0], [len(self.true), len(self.decoys)])


class Judge:
    """Classifiers that were shown examples.

    Args:
        examples: Suites of other models.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        rows = np.concatenate([each.traits for each in examples])
        labels = np.concatenate([each.labels for each in examples])
        self._fitted = {name: make().fit(rows, labels) for name, make in _classifiers().items()}

    def probabilities(self, rows: FloatArray) -> Mapping[str, FloatArray]:
        """Probability that each brick is true, by the classifier's name.

        True bricks and decoys count as equally likely beforehand.

        Args:
            rows: As :func:`dlbricks_core.privacy.traits.traits` gives them.
        """
        return {name: each.predict_proba(rows)[:, 1] for name, each in self._fitted.items()}


def balanced_accuracy(labels: FloatArray, probabilities: FloatArray) -> float:
    """Mean of the shares of true bricks and of decoys that are told rightly; 0.5 is a guess."""
    judged = probabilities > 0.5
    is_true = labels > 0.5
    return float((judged[is_true].mean() + (~judged[~is_true]).mean()) / 2)


def cross_validated(examples: Sequence[Example]) -> Mapping[str, Sequence[float]]:
    """Balanced accuracy on each example of classifiers that saw none of its group.

    Args:
        examples: Suites of at least two groups.

    Returns:
        One number an example, by the classifier's name.
    """
    found: dict[str, list[float]] = {}
    judges: dict[str, Judge] = {}
    for each in examples:
        others = [other for other in examples if other.group != each.group]
        if each.group not in judges:
            judges[each.group] = Judge(others)
        for name, probabilities in judges[each.group].probabilities(each.traits).items():
            found.setdefault(name, []).append(balanced_accuracy(each.labels, probabilities))
    return found


def _classifiers() -> Mapping[str, Callable[[], Any]]:
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise DLBricksError(
            "attackers need scikit-learn, which is not installed",
            hint='Install it: pip install "dlbricks[privacy]"',
        ) from error
    return {
        "logistic regression": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(C=0.1, max_iter=2000, class_weight="balanced")
        ),
        "random forest": lambda: RandomForestClassifier(
            300, min_samples_leaf=3, class_weight="balanced_subsample", random_state=0
        ),
    }
