"""Figures of models at several sizes: answers of language models, and curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import OverSizes, RunResult
from dlbricks_sizes.answers import Answer, SizeCurve
from dlbricks_sizes.data import answer_data, curve_data
from dlbricks_sizes.report import engine, sizes_answer, sizes_shown

if TYPE_CHECKING:
    from rich.table import Table


def figures_of(result: RunResult) -> AnswersAndCurves:
    """Answers and curves of a result over sizes.

    Raises:
        TypeError: If another distribution made the figures.
    """
    if not isinstance(result.over_sizes, AnswersAndCurves):
        raise TypeError(f"{type(result.over_sizes).__name__} has neither answers nor curves")
    return result.over_sizes


@dataclass(frozen=True)
class AnswersAndCurves(OverSizes):
    """Figures of models at several sizes.

    Attributes:
        answers: Speeds of text generation, if they were requested.
        curves: Results over sizes of open dimensions, or over tokens for another quantity than
            latency.
    """

    answers: Sequence[Answer] = ()
    curves: Sequence[SizeCurve] = ()

    @property
    def by_name(self) -> Mapping[str, Sequence[ModelResult]]:
        """Results by model name; results of a model at all sizes are grouped."""
        several: list[Answer | SizeCurve] = [*self.answers, *self.curves]
        found: dict[str, dict[str, ModelResult]] = {}
        for sized in several:
            for each in sized.results:
                found.setdefault(sized.name, {})[each.cut.model.name] = each
        return {name: list(each.values()) for name, each in found.items()}

    def sentence(self, result: RunResult) -> str:
        """A sentence on answers or curves."""
        return sizes_answer(self.answers, self.curves, result)

    def shown(self, result: RunResult) -> Iterator[str | Table]:
        """Tables of answers or curves, and explanations of them."""
        return sizes_shown(self.answers, self.curves, result)

    def data(self, result: RunResult) -> Mapping[str, Any]:
        """Answers and curves in JSON."""
        quantity = result.request.quantity
        return {
            "answers": [answer_data(each, quantity, engine(each, result)) for each in self.answers],
            "curves": [curve_data(each, quantity) for each in self.curves],
        }
