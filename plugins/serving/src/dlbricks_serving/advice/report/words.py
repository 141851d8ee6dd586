"""Advice in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dlbricks_sizes.answers import FIRST_TOKEN, OUTPUT_TOKEN, SHORT, quantities_of
from dlbricks_sizes.report import workload
from dlbricks_sizes.workloads import Basis

from dlbricks_core.facts import LATENCY, Note, Quantity
from dlbricks_core.report.heading import quantity_name
from dlbricks_core.report.tables import ms
from dlbricks_core.wording import count
from dlbricks_serving.advice.advice import (
    PRICE,
    Advice,
    AdviceRequest,
    Alternative,
    Ranked,
    TaskRanking,
)
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.requirements import THROUGHPUT, Requirement
from dlbricks_serving.notes import note, warning
from dlbricks_serving.scenarios import PATTERNS, Scenario

BASES: Mapping[Basis, str] = {
    "measured": "measured",
    "composed": "bricks",
    "predicted": "predicted",
}
"""Basis of a latency, in one word."""


def title(advice: Advice) -> str:
    """Title of the advice."""
    names = [ranking.name for ranking in advice.rankings]
    about = names[0] if len(names) == 1 else count(len(names), "model")
    return f"Where to run {about}" if advice.wanted.accuracies is None else f"Which of {about}"


def answer(ranking: TaskRanking, wanted: AdviceRequest) -> str:
    """The best alternative, and the probability that it is the best."""
    first, bound = ranking.first, bounds(wanted)
    name = ranking.name
    if wanted.workload is not None:
        name = f"{name}, {workload(wanted.workload)}"
    if wanted.scenario is not None:
        name = f"{name}, {wanted.scenario}"
    if first is None:
        fastest = min(ranking.ranked, key=lambda each: each.alternative.ms).alternative
        return (
            f"{name}: nothing keeps {limits(wanted)}; the fastest is "
            f"{named(fastest, ranking)} with {_times(fastest, wanted)}."
        )
    best, quantity = first.alternative, wanted.order.quantity
    what = _FIRST.get(quantity.name, f"one with least {quantity_name(quantity)}")
    least = [f"{ms(first.by.value)} {quantity.unit}"] if wanted.order.metric else []
    alone = wanted.workload is None and wanted.scenario is None
    per_million = f"{currency(wanted)} a million{'' if alone else f' {wanted.counted}'}"
    price = [] if best.price is None else [f"{money(best.price)} {per_million}"]
    figures = ", ".join([*least, *price, _times(best, wanted)])
    return (
        f"{name}: the {what}{bound} is {named(best, ranking)}: {figures}; "
        f"probability that it is first: {share(first.first)}."
    )


def _times(best: Alternative, wanted: AdviceRequest) -> str:
    """Latency of a run, times of an answer, or figures under load.

    ``30 ms to the first token, 90 ms in all``, ``620 samples/s, 99th percentile 3.4 ms``.
    """
    if wanted.scenario is not None:
        latency = f"{latency_name(wanted)} {ms(best.ms)} ms"
        if not best.per_second:  # no rate keeps the bound
            return latency
        return f"{ms(best.per_second)} {wanted.counted}/s, {latency}"
    parts = [
        f"{ms(each.value)} ms {_OF_ANSWERS[each.requirement.quantity]}"
        for each in best.required
        if each.requirement.quantity in _OF_ANSWERS
    ]
    return ", ".join([*dict.fromkeys(parts), f"{ms(best.ms)} ms{' in all' if parts else ''}"])


_OF_ANSWERS: Mapping[Quantity, str] = {
    FIRST_TOKEN: "to the first token",
    OUTPUT_TOKEN: "per output token",
}
"""Words after the times of an answer."""

_FIRST: Mapping[str, str] = {
    LATENCY.name: "fastest",
    PRICE: "cheapest",
    THROUGHPUT.name: "one that serves most",
}
"""Word for the first alternative, by the name of the quantity to order by."""


def front(ranking: TaskRanking) -> str:
    """The models on the Pareto front, the most accurate first."""
    models = list(dict.fromkeys(each.alternative.job.name for each in ranking.front))
    return f"On the Pareto front, the most accurate first: {', '.join(models) or 'none'}."


def bounds(wanted: AdviceRequest) -> str:
    """All bounds, after a noun: `` within 50 ms``; empty if there is none."""
    return f" within {limits(wanted)}" if wanted.is_bounded else ""


def limits(wanted: AdviceRequest) -> str:
    """All bounds: ``50 ms and 500 MiB of peak memory``."""
    whole = "" if wanted.workload is None else " in all"
    latency = [] if wanted.longest_ms is None else [f"{ms(wanted.longest_ms)} ms{whole}"]
    others = [
        f"{ms(each.most)} {each.quantity.unit} "
        f"{_OF_ANSWERS.get(each.quantity) or f'of {quantity_name(each.quantity)}'}"
        for each in wanted.bounds
    ]
    return " and ".join([*latency, *others])


def heading_of(requirement: Requirement) -> str:
    """Heading of the column of a quantity other than latency."""
    quantity = requirement.quantity
    return f"{SHORT.get(quantity) or quantity_name(quantity).capitalize()} {quantity.unit}"


def latency_name(wanted: AdviceRequest) -> str:
    """Word for the latency: an answer's is its total time, and a load's a percentile."""
    if wanted.scenario is not None:
        return f"{_percentile(wanted.scenario)}th percentile"
    return "latency" if wanted.workload is None else "total time"


def latency_heading(wanted: AdviceRequest) -> str:
    """Heading of the column of latencies, with their unit."""
    if wanted.scenario is not None:
        return f"p{_percentile(wanted.scenario)} ms"
    return f"{latency_name(wanted).split()[0].capitalize()} ms"


def _percentile(scenario: Scenario) -> int:
    """Percentile of the latency that counts in a scenario; the 99th where none does."""
    return round(100 * (PATTERNS[scenario].percentile or 0.99))


def name_of(quantity: Quantity, wanted: AdviceRequest) -> str:
    """Name of a quantity, such as the one by which alternatives are ordered."""
    return latency_name(wanted) if quantity == LATENCY else quantity_name(quantity)


def named(alternative: Alternative, ranking: TaskRanking) -> str:
    """A place in words, with the model where several are ranked together."""
    model, where = alternative.job.name, place(alternative.place)
    return where if model == ranking.name else f"{model} on {where}"


def place(where: Place) -> str:
    """A place in words: ``onnxruntime 1.23.0, 2 threads on AMD EPYC (8638a1e4)``."""
    return f"{how(where)} on {system(where)}"


def how(where: Place) -> str:
    """Backend and threads of a place, and its instances."""
    return f"{where.setup.backend} {where.setup.version}, {where.size}"


def system(where: Place) -> str:
    """A system in a few words."""
    return f"{where.system.cpu or 'an unknown processor'} ({where.name})"


def currency(wanted: AdviceRequest) -> str:
    """Currency of the prices; empty without prices."""
    return wanted.prices.currency if wanted.prices else ""


def money(price: float) -> str:
    """A price with three digits."""
    return f"{price:#.3g}".rstrip(".") if price < 999.5 else f"{price:,.0f}"


def share(probability: float) -> str:
    """A probability in percent; draws cannot distinguish 0 and 1 from values close to them."""
    return ">99%" if probability > 0.995 else "<1%" if probability < 0.005 else f"{probability:.0%}"


def systems(advice: Advice) -> dict[str, str]:
    """The systems in words, by their short names."""
    return {place.name: place.system.describe() for place in advice.places}


def explained(wanted: AdviceRequest, *, per_second: bool = True) -> list[str]:
    """Meaning of the tables' columns; of inferences per second only where these are shown."""
    job = "a run" if wanted.workload is None else "an answer"
    run = "" if wanted.per_run == 1 else f"; {job} makes {wanted.per_run} {wanted.counted}"
    found = (
        [f"Per s: {wanted.counted} a second of {_processes(wanted)}{run}."] if per_second else []
    )
    if wanted.scenario is not None:
        found.insert(0, f"{latency_heading(wanted)}: {latency_name(wanted)} of the latency.")
    if wanted.workload is not None:
        parts = quantities_of(wanted.workload)
        names = [f"{SHORT[each]}: {quantity_name(each)}" for each in parts]
        found.insert(0, f"Total: time of the whole answer; {', '.join(names)}.")
    if wanted.prices:
        found.append(
            f"{currency(wanted)}: price of a million {wanted.counted} of {_processes(wanted)} on a "
            "system that does nothing else."
        )
    if wanted.is_bounded:
        kept = "all bounds" if _bounds(wanted) > 1 else "the bound"
        found.append(f"Keeps: probability of keeping {kept}.")
    order = f" by {name_of(wanted.order.quantity, wanted)}" if wanted.by else ""
    return [*found, f"First: probability of being the first{order}{of_those(wanted)}."]


def _processes(wanted: AdviceRequest) -> str:
    """Processes whose outputs count, in words."""
    return "one process" if wanted.scenario is None else "all instances"


def of_those(wanted: AdviceRequest) -> str:
    """The alternatives among which the first is chosen, in words."""
    return ("", " of those that keep it", " of those that keep them")[min(_bounds(wanted), 2)]


def _bounds(wanted: AdviceRequest) -> int:
    """Number of bounds."""
    return (wanted.longest_ms is not None) + len(wanted.bounds)


def notes(advice: Advice) -> list[Note]:
    """Remarks on the figures; those on predictions come first."""
    predicted = [each for each in advice.alternatives if each.basis == "predicted"]
    found = list(advice.notes)
    if predicted:
        shares = sorted(each.origin["predicted"] for each in predicted)
        inferred = note(
            "latencies-predicted",
            predicted=len(predicted),
            alternatives=len(advice.alternatives),
            answers=advice.wanted.workload is not None,
            least_share=shares[0],
            most_share=shares[-1],
        )
        found.insert(0, inferred)
    if busy := [each for each in advice.alternatives if each.load]:
        beside = warning(
            "alternatives-beside-others",
            busy=len(busy),
            alternatives=len(advice.alternatives),
            most_load=max(each.load for each in busy),
        )
        doubtful = any(each.is_doubtful for each in busy)
        found.insert(0, replace(beside, severity="doubtful") if doubtful else beside)
    found[:0] = _predicted_required(advice)
    only = list(dict.fromkeys(system(p) for p in advice.places if p.only_shipped))
    if only:
        found.insert(0, note("only-reference-data", systems=only))
    return found


def _predicted_required(advice: Advice) -> list[Note]:
    """Remarks on quantities with a metric that are predicted."""
    notes = []
    for number, each in enumerate(advice.wanted.with_metric):
        known = [it.required[number] for it in advice.alternatives]
        predicted = sum(one.basis == "predicted" for one in known)
        if predicted:
            inferred = note(
                "quantity-predicted",
                quantity=quantity_name(each.quantity),
                predicted=predicted,
                alternatives=len(known),
            )
            notes.append(inferred)
    return notes


def best_of_each(ranking: TaskRanking) -> list[Ranked]:
    """The best alternative of each model, in the order of the ranking."""
    found: dict[str, Ranked] = {}
    for each in ranking.ranked:
        found.setdefault(each.alternative.job.name, each)
    return list(found.values())
