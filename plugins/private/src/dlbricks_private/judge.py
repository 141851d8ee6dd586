"""Attack by traits: classifiers that learn on suites of other models what decoys look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dlbricks_core.bricks import Brick
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_private.traits import traits


@dataclass(frozen=True)
class Example:
    """A suite with known true bricks, because the attackers have made it themselves."""

    group: str  #: Group of the suite's model. Examples of one group never judge each other.
    true: Sequence[Brick]  #: Bricks of the model.
    decoys: Sequence[Brick]  #: The other bricks.

    @cached_property
    def traits(self) -> FloatArray:
        """Traits of the true bricks, then of the decoys."""
        return traits([*self.true, *self.decoys])

    @property
    def labels(self) -> FloatArray:
        """1 for true bricks, 0 for decoys, in the same order."""
        return np.repeat([1.0, 0.0], [len(self.true), len(self.decoys)])


class Judge:
    """Classifiers trained on examples.

    Args:
        examples: Suites of other models.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        rows = np.concatenate([each.traits for each in examples])
        labels = np.concatenate([each.labels for each in examples])
        self._fitted = {name: make().fit(rows, labels) for name, make in _classifiers().items()}

    def probabilities(self, rows: FloatArray) -> Mapping[str, FloatArray]:
        """Probability that each brick is true, by the classifier's name.

        True bricks and decoys are equally likely a priori.

        Args:
            rows: Traits of the bricks, from :func:`.traits.traits`.
        """
        return {name: each.predict_proba(rows)[:, 1] for name, each in self._fitted.items()}


def balanced_accuracy(labels: FloatArray, probabilities: FloatArray) -> float:
    """Mean of the true positive and the true negative rate; guessing gives 0.5."""
    judged = probabilities > 0.5
    is_true = labels > 0.5
    return float((judged[is_true].mean() + (~judged[~is_true]).mean()) / 2)


def cross_validated(examples: Sequence[Example]) -> Mapping[str, Sequence[float]]:
    """Balanced accuracy on each example, of classifiers trained without its group.

    Args:
        examples: Suites of at least two groups.

    Returns:
        One number for each example, by the classifier's name.
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
    # Only attacks wait the second that this import takes.
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic regression": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(C=0.1, max_iter=2000, class_weight="balanced")
        ),
        "random forest": lambda: RandomForestClassifier(
            300, min_samples_leaf=3, class_weight="balanced_subsample", random_state=0
        ),
    }
