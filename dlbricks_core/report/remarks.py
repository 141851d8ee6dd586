"""Remarks on figures, without duplicates, in the order of their effect on the figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.statistics import is_short, scatters, warnings_for
from dlbricks_core.report import arithmetic
from dlbricks_core.report.console import styled
from dlbricks_core.report.weights import share

if TYPE_CHECKING:
    from dlbricks_core.facts import Failure
    from dlbricks_core.report.console import Console
    from dlbricks_core.workflows import BrickResult, ModelResult, RunResult

_UNCERTAIN = 0.1
"""Minimum relative half-width of a brick's interval that counts as uncertain."""

_MOST = 0.5
"""Share of the sum over all bricks from which uncertain bricks make the whole doubtful."""

_NAMED = 3
"""Maximum number of places named for one reason of failure."""


class Effect(IntEnum):
    """Effect of a remark on the figures, from the worst to the mildest."""

    DOUBTFUL = 0
    INCOMPLETE = 1
    WARNING = 2
    NOTE = 3

    @property
    def label(self) -> str:
        """Word in front of the remark."""
        return self.name.capitalize()


@dataclass(frozen=True)
class Remark:
    """A remark on figures.

    Attributes:
        effect: Effect on the figures.
        text: One sentence without a full stop.
    """

    effect: Effect
    text: str


def run_remarks(result: RunResult) -> list[Remark]:
    """Remarks on a run, the worst first."""
    return ranked(
        [
            *_of_samples({"": result}, result.outcome.warnings),
            *_of_partial(result.models),
            *_of_predicted(result),
            *(Remark(Effect.NOTE, text) for text in result.outcome.notes),
            *(Remark(Effect.NOTE, text) for text in arithmetic.of_run(result)),
            *_of_models(result.models),
        ]
    )


def _of_models(models: Sequence[ModelResult]) -> Iterator[Remark]:
    """Notes on models, grouped by note."""
    noted: dict[str, list[str]] = {}
    for model in models:
        for note in model.notes:
            noted.setdefault(note, []).append(model.cut.model.name)
    for note, names in noted.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield Remark(Effect.NOTE, f"{', '.join(names[:_NAMED])}{more}: {note}")


def comparison_remarks(
    runs: Mapping[str, RunResult], disturbances: Sequence[str], notes: Iterable[str]
) -> list[Remark]:
    """Remarks on runs on several backends, the worst first.

    Args:
        runs: The runs by backend.
        disturbances: Disturbances of the machine during the measurements.
        notes: Other remarks.
    """
    return ranked(
        [*_of_samples(runs, disturbances), *(Remark(Effect.NOTE, text) for text in notes)]
    )


def ranked(remarks: Iterable[Remark]) -> list[Remark]:
    """Distinct remarks in the order of their effect."""
    return sorted(dict.fromkeys(remarks), key=lambda remark: remark.effect)


def _of_samples(runs: Mapping[str, RunResult], disturbances: Sequence[str]) -> Iterator[Remark]:
    """Remarks on the samples of bricks, and on disturbances."""
    disturbed = [f"{text} while measuring" for text in disturbances]
    for name, run in runs.items():
        on = f" on {name}" if name else ""
        of = _Bricks.of(run)
        values = "latencies" if run.request.probe is None else "values"
        uncertain = (
            f"{values} of {of.text(of.uncertain)}{on} are uncertain by more than ±{_UNCERTAIN:.0%}"
        )
        scatter = f"samples of {of.text(of.scattered)}{on} scatter widely"
        if of.are_most(of.uncertain):
            yield Remark(Effect.DOUBTFUL, uncertain)
        elif of.uncertain:
            yield Remark(Effect.WARNING, uncertain)
        elif disturbed and of.are_most(of.scattered):
            yield Remark(Effect.DOUBTFUL, scatter)
        elif of.scattered:
            yield Remark(Effect.NOTE, f"{scatter}; the intervals allow for it")
        if of.short:
            yield Remark(Effect.NOTE, f"{of.text(of.short)}{on} take less than 1 ms a run")
        for flag, count in of.flags.items():
            yield Remark(Effect.WARNING, f"{count} of {len(of.every)} bricks{on}: {flag}")
    yield from (Remark(Effect.WARNING, text) for text in disturbed)


@dataclass(frozen=True)
class _Bricks:
    """Bricks of a run, by the doubts about their samples."""

    every: Sequence[BrickResult]
    uncertain: Sequence[BrickResult]
    scattered: Sequence[BrickResult]
    short: Sequence[BrickResult]
    flags: Mapping[str, int]

    @classmethod
    def of(cls, run: RunResult) -> _Bricks:
        samples = {b.brick.signature: b.latency.samples for b in run.bricks if _is_timed(b)
                   and b.latency}  # fmt: skip

        def those(signatures: set[str]) -> list[BrickResult]:
            """Bricks whose latency rests on the samples of one of these."""
            return [
                each
                for each in run.bricks
                if not signatures.isdisjoint(run.timed.get(each.brick.signature, ()))
            ]

        return cls(
            every=[each for each in run.bricks if each.latency],
            # The dial leaves bricks uncertain if the estimates are precise without them.
            uncertain=[each for each in run.bricks if _is_uncertain(each) and not run.dial],
            scattered=those({s for s, values in samples.items() if scatters(values)}),
            short=those({b.brick.signature for b in run.bricks if _is_short(b)}),
            flags=Counter(
                flag
                for each in run.bricks
                if each.brick.signature in samples
                for flag in set(each.warnings) - set(warnings_for(samples[each.brick.signature]))
            ),
        )

    def are_most(self, some: Sequence[BrickResult]) -> bool:
        """Whether some bricks make up most of the sum over all."""
        return bool(some) and (share(some, self.every) or 1.0) >= _MOST

    def text(self, some: Sequence[BrickResult]) -> str:
        """Text on the number of bricks, and on their share of the sum."""
        part = share(some, self.every)
        of = "" if part is None else f" ({part:.0%} of the sum)"
        return f"{len(some)} of {len(self.every)} bricks{of}"


def doubts(each: BrickResult) -> list[str]:
    """Doubts about a brick's samples in a few words; the JSON file has the figures."""
    if each.latency is None or not _is_timed(each):
        return []
    samples = each.latency.samples
    usual = {"samples scatter": scatters(samples), "below 1 ms": _is_short(each)}
    flags = set(each.warnings) - set(warnings_for(samples))
    return [*(text for text, holds in usual.items() if holds), *sorted(flags)]


def _is_timed(each: BrickResult) -> bool:
    return each.latency is not None and bool(each.latency.samples) and not each.derived_from


def _is_short(each: BrickResult) -> bool:
    """Whether a latency is too short for a clock to resolve it well."""
    if each.latency is None or not _is_timed(each) or each.quantity != LATENCY:
        return False
    return is_short(each.latency.samples)


def _is_uncertain(each: BrickResult) -> bool:
    """Whether samples leave a brick uncertain. Predictions show it in models' intervals."""
    if each.latency is None or each.interval_ms is None or each.origin == "predicted":
        return False
    low, high = each.interval_ms
    return (high - low) / 2 > _UNCERTAIN * each.latency.value


def _of_predicted(result: RunResult) -> Iterator[Remark]:
    """Remark on the predicted part of the sum."""
    predicted = [each for each in result.bricks if each.origin == "predicted"]
    if predicted and not result.dial:
        text = _Bricks.of(result).text(predicted)
        verb, them = ("is", "it") if len(predicted) == 1 else ("are", "them")
        by = f" by {result.predictor}" if result.predictor else ""
        where = "there" if result.request.elsewhere else "here"
        yield Remark(Effect.NOTE, f"{text} {verb} predicted{by}: nobody measured {them} {where}")


def _of_partial(models: Sequence[ModelResult]) -> Iterator[Remark]:
    """Remark on estimates with missing bricks, and on unsupported operators."""
    partial = [model for model in models if model.missing]
    if not partial:
        return
    listed = ", ".join(
        f"{model.cut.model.name} {len(model.missing)} of {len(model.cut.counts)}"
        for model in partial[:_NAMED]
    )
    more = f" and {len(partial) - _NAMED} more" if len(partial) > _NAMED else ""
    operators = {
        operator
        for model in partial
        for signature, reason in model.unsupported.items()
        for operator in _to_blame(model.cut.operators(signature), reason)
    }
    unsupported = f"; unsupported: {', '.join(sorted(operators))}" if operators else ""
    low = sum(model.estimate.value is not None for model in partial)
    found = {"estimate too low": low, "model without an estimate": len(partial) - low}
    lack = " and ".join(_plural(number, noun) for noun, number in found.items() if number)
    yield Remark(
        Effect.INCOMPLETE,
        f"{lack}, for want of bricks: {listed}{more}{unsupported}",
    )


def _to_blame(operators: Sequence[str], reason: str) -> Sequence[str]:
    """Operators of a brick that a reason names; all of them if it names none."""
    words = set(re.findall(r"\w+", reason))
    return [each for each in operators if each.rpartition(".")[2] in words] or operators


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _plural(number: int, phrase: str) -> str:
    """A number and a phrase that begins with a noun."""
    noun, _, rest = phrase.partition(" ")
    return f"{_count(number, noun)} {rest}"


def alike(failures: Iterable[Failure], most: int | None = None) -> list[tuple[str, str]]:
    """Places and reasons of failures, grouped by model and reason.

    Args:
        failures: The failures.
        most: Maximum number of places named for one reason; ``None`` for all.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        # A model that fails as a whole is grouped with others that fail for the same reason.
        model, what = (failure.subject, failure.part) if failure.part else ("", failure.subject)
        together.setdefault((model, failure.reason), []).append(what)
    found = []
    for (model, reason), places in together.items():
        named = ", ".join(places[:most])
        rest = 0 if most is None else len(places) - most
        more = f" and {rest} more" if rest > 0 else ""
        found.append((f"{model}: {named}{more}" if model else f"{named}{more}", reason))
    return found


_STYLES = {
    Effect.DOUBTFUL: "bold red",
    Effect.INCOMPLETE: "red",
    Effect.WARNING: "yellow",
    Effect.NOTE: "dim",
}


def print_warnings(console: Console, remarks: Iterable[Remark], failures: int = 0) -> None:
    """Prints the remarks that belong above the figures: all except notes.

    Args:
        console: The console.
        remarks: Remarks, the worst first.
        failures: Number of failures that :func:`print_failures` will name below the figures.
    """
    _print(console, (remark for remark in remarks if remark.effect < Effect.NOTE))
    if failures:
        text = f" {_count(failures, 'failure')}, named below the figures"
        console.print(styled(("Failed:", "red"), text))


def print_notes(console: Console, remarks: Iterable[Remark]) -> None:
    """Prints the notes, which belong below the figures."""
    _print(console, (remark for remark in remarks if remark.effect == Effect.NOTE))


def print_failures(console: Console, failures: Iterable[Failure]) -> None:
    """Prints all failures; those of a model with one reason share a line."""
    for where, reason in alike(failures, _NAMED):
        console.print(styled(("Failed:", "red"), f" {where}: {reason}"))


def _print(console: Console, remarks: Iterable[Remark]) -> None:
    for remark in remarks:
        console.print(
            styled((f"{remark.effect.label}:", _STYLES[remark.effect]), f" {remark.text}")
        )
