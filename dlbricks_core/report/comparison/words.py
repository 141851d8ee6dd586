"""Results of a comparison in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from dlbricks_core.facts import Failure
from dlbricks_core.figures.ranking import Ranking, Ratio
from dlbricks_core.report.heading import count
from dlbricks_core.report.remarks import Remark, comparison_remarks
from dlbricks_core.report.tables import ms
from dlbricks_core.workflows import BrickComparison, Comparison

NO_WINNER = "no clear winner"
ONLY_ONE = "only one measured"
TOO_SHORT = "too short to tell"


def subject(result: Comparison) -> str:
    """Models and backends of a comparison: ``2 models on onnxruntime and mxnet, 1 thread``."""
    models = result.models
    what = models[0].cut.model.name if len(models) == 1 else count(len(models), "model")
    *others, last = result.runs
    backends = f"{', '.join(others)} and {last}" if others else last
    return f"{what} on {backends}, {count(result.any_run.request.settings.threads, 'thread')}"


def answer(result: Comparison, *, doubtful: bool) -> str:
    """Which backend is fastest end to end, in a sentence.

    Args:
        result: The comparison.
        doubtful: Whether its figures are worth little.
    """
    if len(result.models) == 1:
        return f"{subject(result)}: {_of_model(result.models[0].ranking, doubtful)}."
    verdicts = Counter(verdict(model.ranking, doubtful=doubtful) for model in result.models)
    listed = "; ".join(f"{name} on {number}" for name, number in verdicts.most_common())
    return f"{subject(result)}: fastest end to end: {listed}."


def _of_model(ranking: Ranking, doubtful: bool) -> str:
    if ranking.fastest is None:
        return "nothing was measured end to end"
    (fastest, cost), *_ = ranking.costs.items()
    if not ranking.ratios:
        return f"only {fastest} was measured, {ms(cost.ms)} ms"
    others = ", ".join(f"{name} {margin(each)}" for name, each in ranking.ratios.items())
    if ranking.winner is None:
        head = f"no clear winner; {fastest} takes {ms(cost.ms)} ms"
    else:
        head = f"{fastest} {'seems' if doubtful else 'is'} fastest, {ms(cost.ms)} ms"
    return f"{head}, {others} as long"


def verdict(ranking: Ranking, *, doubtful: bool = False) -> str:
    """The fastest backend, in a few words.

    Args:
        ranking: Backends from the fastest to the slowest.
        doubtful: Whether the figures are worth little.
    """
    if ranking.fastest is None:
        return "-"
    if ranking.margin is None:
        return ONLY_ONE
    if ranking.margin.value is None:
        return TOO_SHORT
    if ranking.winner is None:
        return NO_WINNER
    return f"perhaps {ranking.winner}" if doubtful else ranking.winner


def margin(ratio: Ratio | None) -> str:
    """Ratio to the fastest with its 90% interval: ``2.07x (1.31-2.52)``."""
    if ratio is None or ratio.value is None:
        return "-"
    low, high = ("inf" if end is None else ms(end) for end in (ratio.low, ratio.high))
    return f"{ms(ratio.value)}x ({low}-{high})"


def weight(each: BrickComparison) -> float:
    """Milliseconds that a brick adds to the models on the backend where it adds most."""
    return each.occurrences * max((c.ms for c in each.ranking.costs.values()), default=0.0)


def remarks(result: Comparison) -> list[Remark]:
    """Remarks on a comparison, the worst first."""
    notes = [
        *result.notes,
        *(f"{name}: {note}" for name, run in result.runs.items() for note in run.outcome.notes),
        *(
            f"{model.cut.model.name} on {backend}: {note}"
            for model in result.models
            for backend, each in model.results.items()
            for note in each.notes
        ),
    ]
    return comparison_remarks(result.runs, disturbances(result), notes)


def disturbances(result: Comparison) -> list[str]:
    """Disturbances of the machine while anything was measured, each once."""
    texts = (text for run in result.runs.values() for text in run.outcome.warnings)
    return list(dict.fromkeys(texts))


def with_backends(failures: Iterable[Failure]) -> list[Failure]:
    """Failures whose subject also tells on which backend they happened."""
    return [
        replace(each, subject=f"{each.subject} on {each.backend}") if each.backend else each
        for each in failures
    ]
