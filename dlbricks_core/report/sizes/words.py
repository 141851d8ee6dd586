"""Answers and curves in sentences, and the names of their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from dlbricks_core.facts import Workload
from dlbricks_core.figures.figure import Figure
from dlbricks_core.report.heading import count, subject
from dlbricks_core.report.tables import ms
from dlbricks_core.workflows import Answer, Compared, Rate, RunResult

Time = Callable[[Answer], Compared | None]

TIMES: Mapping[str, Time] = {
    "Time to first token": lambda answer: answer.first,
    "Time per output token": lambda answer: answer.token,
    "Total time": lambda answer: answer.total,
}
"""Times of an answer by name."""

RATES: Mapping[str, Callable[[Answer], Rate]] = {
    "Prompt tokens per second": lambda answer: answer.prompt_rate,
    "Generated tokens per second": lambda answer: answer.generation_rate,
    "Output tokens per second": lambda answer: answer.output_rate,
}
"""Rates of an answer by name."""


_SECONDS_MS = 10_000
"""Minimum milliseconds that a sentence gives in seconds."""


def sizes_answer(result: RunResult) -> str:
    """A sentence on answers or curves."""
    if len(result.answers) == 1:
        return f"{subject(result)}: {workload(result.answers[0].workload)}; {_of_one(result)}."
    if result.answers:
        first = _range(answer.first for answer in result.answers)
        tokens = [answer.token for answer in result.answers if answer.token is not None]
        then = f", then {_range(tokens)} a token" if tokens else ""
        number = count(len(result.answers), "workload")
        return f"{subject(result)}: {number}; first token after {first}{then}."
    points = [point.result.compared for curve in result.curves for point in curve.points]
    unit = result.request.quantity.unit
    return f"{subject(result)}: {_range(points, unit)} at {count(len(points), 'point')}."


def workload(asked: Workload) -> str:
    """A workload in words: ``prompt 512, generate 128``."""
    usual = Workload(asked.prompt, asked.generate)
    shown = {
        name: value
        for name, value in asdict(asked).items()
        if name in ("prompt", "generate") or value != getattr(usual, name)
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def varying(workloads: Sequence[Workload]) -> list[str]:
    """Fields in which workloads differ; the prompt if they do not."""
    several = [asdict(each) for each in workloads]
    names = [name for name in several[0] if len({each[name] for each in several}) > 1]
    return names or ["prompt"]


def span(compared: Compared) -> str:
    """An estimated time and its interval: ``12.0 ms (10.0-14.0)``."""
    estimate = compared.estimate
    if estimate.value is None:
        return "unknown"
    if estimate.partial:
        return f"more than {ms(estimate.value)} ms"
    unit, scale = ("s", 1e-3) if estimate.value >= _SECONDS_MS else ("ms", 1.0)
    ends = [ms(end * scale) for end in estimate.interval or ()]
    between = f" ({'-'.join(ends)})" if ends else ""
    return f"{ms(estimate.value * scale)} {unit}{between}"


def _of_one(result: RunResult) -> str:
    (answer,) = result.answers
    found = f"first token after {span(answer.first)}"
    if answer.token is not None:
        found += f", then {span(answer.token)} a token"
    times = (answer.first, answer.token)
    figures = [each.measured for each in times if each is not None and each.measured is not None]
    return f"{found}{_measured(figures)}"


def _measured(figures: Sequence[Figure]) -> str:
    values = " and ".join(ms(figure.value) for figure in figures)
    return f"; measured {values} ms" if values else ""


def _range(several: Iterable[Compared], unit: str = "ms") -> str:
    """Smallest and largest of several estimates."""
    values = sorted(_values(several))
    if not values:
        return "an unknown time"
    low, high = ms(values[0]), ms(values[-1])
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _values(several: Iterable[Compared]) -> Iterator[float]:
    yield from (each.estimate.value for each in several if each.estimate.value is not None)
