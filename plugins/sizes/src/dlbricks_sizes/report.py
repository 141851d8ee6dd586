"""Models at several sizes: speed of language models, and curves over sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.table import Table

from dlbricks_core.commands.options.workload import Workload
from dlbricks_core.estimation.model_result import Compared
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import LATENCY, Quantity
from dlbricks_core.report.heading import subject
from dlbricks_core.report.tables import (
    compared_cells,
    interval_text,
    ms,
    size_text,
    table,
    value_text,
)
from dlbricks_core.wording import count
from dlbricks_sizes.answers import Answer, MemoryNeed, Rate, SizeCurve

Time = Callable[[Answer], Compared | None]

#: Times of an answer by name.
TIMES: Mapping[str, Time] = {
    "Time to first token": lambda answer: answer.first,
    "Time per output token": lambda answer: answer.token,
    "Total time": lambda answer: answer.total,
}

#: Rates of an answer by name.
RATES: Mapping[str, Callable[[Answer], Rate]] = {
    "Prompt tokens per second": lambda answer: answer.prompt_rate,
    "Generated tokens per second": lambda answer: answer.generation_rate,
    "Output tokens per second": lambda answer: answer.output_rate,
}


_SECONDS_MS = 10_000  #: Minimum milliseconds that a sentence gives in seconds.


def sizes_answer(answers: Sequence[Answer], curves: Sequence[SizeCurve], result: RunResult) -> str:
    """A sentence on answers or curves of a result."""
    if len(answers) == 1:
        return f"{subject(result)}: {workload(answers[0].workload)}; {_of_one(answers[0])}."
    if answers:
        first = _range(answer.first for answer in answers)
        tokens = [answer.token for answer in answers if answer.token is not None]
        then = f", then {_range(tokens)} a token" if tokens else ""
        number = count(len(answers), "workload")
        return f"{subject(result)}: {number}; first token after {first}{then}."
    points = [point.result.compared for curve in curves for point in curve.points]
    has_any = any(each.estimate.value is not None for each in points)
    values = _range(points, result.request.quantity) if has_any else "no estimate"
    return f"{subject(result)}: {values} at {count(len(points), 'point')}."


def engine(answer: Answer, result: RunResult) -> str:
    """Program for language models whose figures an answer has.

    A model of the user's own runs its own graph, whatever such a program makes of its layers.
    """
    backend, model = result.request.backend, answer.prefill.cut.model
    if model.configuration:
        return backend.engine(result.request.settings, model)
    return f"{backend.name} on the graph of {answer.name} as it is"


def engines(answers: Sequence[Answer], result: RunResult) -> Iterator[str]:
    """A sentence on each program for language models that the answers are for."""
    for each in dict.fromkeys(engine(answer, result) for answer in answers):
        yield f"Figures are for {each}."


def memory(result: RunResult) -> Iterator[str]:
    """Sentences on the memory of each model at several sizes, and on how much to reserve."""
    for name, several in result.by_name.items():
        found = MemoryNeed.of(several, result.request.quantity)
        if found is None:
            continue
        parts = {
            "weights": found.weights_bytes,
            "cache per 1,000 tokens": found.cache_bytes_per_1000_tokens,
            "activations": found.activations_bytes,
        }
        listed = ", ".join(f"{part} {size_text(size)}" for part, size in parts.items() if size)
        if found.reserve is not None:
            unit = result.request.quantity.unit
            yield f"Reserve {found.reserve:,.0f} {unit} for {name}: 95 of 100 processes need less."
        yield f"Memory of {name}: {listed}."


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


def _of_one(answer: Answer) -> str:
    found = f"first token after {span(answer.first)}"
    if answer.token is not None:
        found += f", then {span(answer.token)} a token"
    times = (answer.first, answer.token)
    figures = [each.measured for each in times if each is not None and each.measured is not None]
    values = " and ".join(ms(figure.value) for figure in figures)
    return f"{found}; measured {values} ms" if values else found


def _range(several: Iterable[Compared], quantity: Quantity = LATENCY) -> str:
    values = sorted(e.estimate.value for e in several if e.estimate.value is not None)
    if not values:
        return f"an unknown {quantity.name}"
    low, high = ms(values[0]), ms(values[-1])
    return f"{low} {quantity.unit}" if low == high else f"{low} to {high} {quantity.unit}"


_ESTIMATED = ("TTFT", "90%", "TPOT", "90%", "Tok/s")
_MEASURED = ("TTFT meas.", "Norm.", "TPOT meas.", "Norm.")

#: Maximum number of sizes, and of characters of their names, that leave room for the figures.
_MOST_AXES, _ROOM = 2, 24


def sizes_shown(
    answers: Sequence[Answer], curves: Sequence[SizeCurve], result: RunResult
) -> Iterator[str | Table]:
    """Tables of answers or curves of a result, and explanations of them."""
    if len(answers) == 1:
        yield _answer_table(answers[0])
        yield "Times in ms. Norm.: estimate/measured. >: bricks are missing."
    elif answers:
        yield _workloads(answers, _ESTIMATED, _estimated)
        if any(answer.first.measured for answer in answers):
            yield _workloads(answers, _MEASURED, _measured_cells)
        yield (
            "TTFT: time to first token, TPOT: time per output token, in ms with 90% intervals; "
            "Tok/s: generated tokens per second. >: bricks are missing."
        )
    if curves:
        yield _curves(curves)
        unit = result.request.quantity.unit
        yield f"In {unit}. Norm.: estimate/measured. >: bricks are missing."
    yield from engines(answers, result)
    yield from memory(result)


def _answer_table(answer: Answer) -> Table:
    shown = table(answer.name, "Estimate", "90% interval", "Measured", "Norm.")
    for name, time in TIMES.items():
        if (compared := time(answer)) is not None:
            shown.add_row(name, *compared_cells(compared))
    for name, rate in RATES.items():
        shown.add_row(name, *rate_cells(rate(answer)), "-", "-")
    for depth, each in answer.curve.items():
        shown.add_row(f"Token after {depth}", *compared_cells(each.compared))
    return shown


def rate_cells(rate: Rate) -> tuple[str, str]:
    """Cells for a rate and its interval."""
    return value_text(rate.value), interval_text(rate.interval)


def _workloads(
    answers: Sequence[Answer], columns: Sequence[str], cells: Callable[[Answer], Sequence[str]]
) -> Table:
    """A row for each workload: its distinguishing fields, and the cells of its answer."""
    axes = varying([answer.workload for answer in answers])
    rows = [
        (name, {axis: getattr(answer.workload, axis) for axis in axes}, cells(answer))
        for answer, name in zip(answers, _names(answers), strict=True)
    ]
    return _table(rows, columns)


#: Name of a model, sizes by their names, and cells for figures.
Row = tuple[str, Mapping[str, int], Sequence[str]]


def _table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """Rows with a column for each size, or one for all of them where that would be too wide."""
    axes = list(rows[0][1])
    apart = len(axes) <= _MOST_AXES and sum(map(len, axes)) <= _ROOM
    head = axes if apart else ["Sizes"]
    shown = table("Model", *head, *columns, left=1 if apart else 2)
    for name, sizes, cells in rows:
        numbers = map(str, sizes.values())
        named = ", ".join(f"{axis} {size}" for axis, size in sizes.items())
        shown.add_row(name, *(numbers if apart else [named]), *cells)
    return shown


def _estimated(answer: Answer) -> list[str]:
    first, token = _first_and_token(answer)
    return [*first[:2], *token[:2], rate_cells(answer.generation_rate)[0]]


def _measured_cells(answer: Answer) -> list[str]:
    first, token = _first_and_token(answer)
    return [*first[2:], *token[2:]]


def _first_and_token(answer: Answer) -> tuple[list[str], list[str]]:
    """Cells for the time to the first token, and for the time per output token."""
    token = ["-"] * 4 if answer.token is None else compared_cells(answer.token)
    return compared_cells(answer.first), token


def _curves(curves: Sequence[SizeCurve]) -> Table:
    rows = [
        ("" if i else curve.name, point.sizes, compared_cells(point.result.compared))
        for curve in curves
        for i, point in enumerate(curve.points)
    ]
    return _table(rows, ("Estimate", "90% interval", "Measured", "Norm."))


def _names(answers: Sequence[Answer]) -> Iterator[str]:
    """Names of models for consecutive rows, without repetitions."""
    before = ""
    for answer in answers:
        yield "" if answer.name == before else answer.name
        before = answer.name
