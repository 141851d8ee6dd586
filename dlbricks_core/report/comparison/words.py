"""Results of a comparison in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from dlbricks_core.facts import Failure, Quantity
from dlbricks_core.figures.ranking import Ranking, Ratio
from dlbricks_core.report.comparing_words import words_for
from dlbricks_core.report.heading import count, of_quantity
from dlbricks_core.report.remarks import Effect, Remark, comparison_remarks, ranked
from dlbricks_core.report.tables import ms
from dlbricks_core.wording import settings
from dlbricks_core.workflows import Comparison, Request

NO_WINNER = "no difference shown"
ONLY_ONE = "only one measured"
TOO_SHORT = "too short to tell"


def subject(result: Comparison) -> str:
    """Models and backends of a comparison: ``2 models on onnxruntime and mxnet, 1 thread``.

    A quantity other than latency comes first.
    """
    models = result.models
    what = models[0].cut.model.name if len(models) == 1 else count(len(models), "model")
    *others, last = result.runs
    backends = f"{', '.join(others)} and {last}" if others else last
    request = result.any_run.request
    found = f"{what} on {backends}, {count(request.settings.threads, 'thread')}"
    return of_quantity(request, found)


def answer(result: Comparison) -> str:
    """A sentence on the backend with the least value end to end."""
    if len(result.models) == 1:
        of_model = _of_model(result.models[0].ranking, result.quantity)
        return f"{subject(result)}: {of_model}."
    verdicts = Counter(verdict(model.ranking) for model in result.models)
    listed = "; ".join(
        f"{name} on {count(number, 'model')}" for name, number in verdicts.most_common()
    )
    return f"{subject(result)}: {words_for(result.quantity).least} end to end: {listed}."


def unfit(result: Comparison) -> list[str]:
    """A line for each backend on which a model does not fit into the memory."""
    rest = (
        f"{settings(condition='cold')} times its parts."
        if is_hot(result)
        else "Only its parts are timed."
    )
    return [
        f"{model.model.name} does not fit on {name}: {there.memory}. {rest}"
        for model in result.models
        for name, there in model.results.items()
        if there.memory is not None and not there.memory.fits
    ]


def _of_model(ranking: Ranking, quantity: Quantity) -> str:
    words, unit = words_for(quantity), quantity.unit
    if ranking.fastest is None:
        return "nothing was measured end to end"
    (fastest, cost), *_ = ranking.costs.items()
    if not ranking.ratios:
        return f"only {fastest} was measured, {ms(cost.ms)} {unit}"
    others = ", ".join(f"{name} {margin(each)}" for name, each in ranking.ratios.items())
    if ranking.winner:
        return (
            f"{fastest} {'is' if quantity.is_time else 'takes'} {words.least}, "
            f"{ms(cost.ms)} {unit}, {others} {words.times}"
        )
    why = (
        f"; what disturbed the machine may account for {ranking.slowdown:.2f}x"
        if ranking.is_disturbed
        else ""
    )
    return f"{NO_WINNER}; {fastest} takes {ms(cost.ms)} {unit}, {others} {words.times}{why}"


def verdict(ranking: Ranking) -> str:
    """The backend with the least value, in a few words."""
    if ranking.fastest is None:
        return "-"
    if ranking.margin is None:
        return ONLY_ONE
    if ranking.margin.value is None:
        return TOO_SHORT
    return ranking.winner or NO_WINNER


def margin(ratio: Ratio | None) -> str:
    """Ratio to the least with its 90% interval: ``2.07x (1.31-2.52)``."""
    if ratio is None or ratio.value is None:
        return "-"
    low, high = ("inf" if end is None else ms(end) for end in (ratio.low, ratio.high))
    return f"{ms(ratio.value)}x ({low}-{high})"


def is_hot(result: Comparison) -> bool:
    """Whether whole models ran as their users run them, and profiles show the parts."""
    return result.any_run.request.condition == "hot"


def parts_figures(result: Comparison) -> str:
    """Source of the figures of parts."""
    if is_hot(result):
        return "each part inside of the whole model, by the framework's profiler"
    verb = "timed" if result.any_run.request.probe is None else "measured"
    return f"each part {verb} by itself"


def totals(request: Request) -> str:
    """Description of the figures of parts."""
    quantity = request.quantity
    what = "Totals" if quantity.adds_up else "Of one part each,"
    of = "the timer's own cost" if request.probe is None else "what any network takes"
    return f"{what} in {quantity.unit} without {of}"


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
    return ranked(
        [*comparison_remarks(result.runs, disturbances(result), notes), *_of_disturbance(result)]
    )


def _of_disturbance(result: Comparison) -> list[Remark]:
    """Remarks on differences that are not shown because of disturbances."""
    models, parts = (m.ranking for m in result.models), (p.ranking for p in result.parts)
    rankings = [*models, *parts]
    disturbed = [ranking.slowdown for ranking in rankings if ranking.is_disturbed]
    if not disturbed:
        return []
    return [
        Remark(
            Effect.WARNING,
            "what disturbed the machine may have slowed one backend alone by up to "
            f"{max(disturbed):.2f}x: no smaller difference is shown",
        )
    ]


def disturbances(result: Comparison) -> list[str]:
    """Distinct disturbances of the machine during the measurements."""
    texts = (text for run in result.runs.values() for text in run.outcome.warnings)
    return list(dict.fromkeys(texts))


def with_backends(failures: Iterable[Failure]) -> list[Failure]:
    """Failures with the backend added to their subject."""
    return [
        replace(each, subject=f"{each.subject} on {each.backend}") if each.backend else each
        for each in failures
    ]
