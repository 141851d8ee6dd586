"""Remarks on figures, without duplicates, in the order of their effect on the figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from dlbricks_core import figures
from dlbricks_core.facts import LATENCY, Note
from dlbricks_core.facts.note import note
from dlbricks_core.figures.statistics import is_short, scatters
from dlbricks_core.machine.speed import MULTIPLYING, multiplying
from dlbricks_core.report.columns import column_problems
from dlbricks_core.report.notes import text as text_of
from dlbricks_core.report.tables import styled
from dlbricks_core.wording import count, listed

if TYPE_CHECKING:
    from dlbricks_core.estimation.model_result import ModelResult
    from dlbricks_core.estimation.results import BrickResult, RunResult
    from dlbricks_core.facts import Failure, System
    from dlbricks_core.facts.note import Severity
    from dlbricks_core.ir import CanonicalModel
    from dlbricks_core.report.columns import FilledColumn
    from dlbricks_core.report.tables import Console


def weight(each: BrickResult) -> float:
    """Milliseconds that a brick adds to all models, without the call of the timer."""
    return each.occurrences * figures.Cost.brick(each.latency).ms if each.latency else 0.0


def share(some: Iterable[BrickResult], every: Iterable[BrickResult]) -> float | None:
    """Share of some bricks in the sum over all bricks; ``None`` if the sum is 0."""
    whole = sum(map(weight, every))
    return sum(map(weight, some)) / whole if whole else None


#: Types of :data:`MULTIPLYING` that a whole model may compute in.
_FLOATS = ("bfloat16", "float16")


def arithmetic(system: System, dtype: str) -> Note:
    """A note on a system's arithmetic in a type: ``bfloat16: is converted to float32``."""
    found = multiplying(system, dtype)
    if found is None:
        return note("instruction-sets-unknown", dtype)
    if found:
        return note("multiplied-natively", dtype, instructions=found)
    has_f16c = dtype == "float16" and "f16c" in system.isa
    return note("converted-to-float32", dtype, own_instruction=has_f16c)


def processor_notes(system: System) -> list[Note]:
    """A note for each type with a speed that depends on instruction sets."""
    return [arithmetic(system, dtype) for dtype in MULTIPLYING]


def arithmetic_notes(result: RunResult) -> Iterator[Note]:
    """Notes on short types of models: the arithmetic of the processor and of the backend.

    A backend without kernels for a type converts inputs to float32, and computes in float32.
    """
    types = {model.cut.model.name: short_float(model.cut.model) for model in result.models}
    for dtype in dict.fromkeys(filter(None, types.values())):
        yield arithmetic(result.request.target, dtype)
    bricks = {each.brick.signature: each.brick for each in result.bricks}
    for model in result.models:
        dtype = types[model.cut.model.name]
        if not dtype:
            continue
        executed = [(bricks[s].model, n) for s, n in model.cut.counts.items() if s in bricks]
        layers = sum(n * len(part.layers) for part, n in executed)
        wide = sum(n * _wide_layers(part) for part, n in executed)
        if wide > layers / 2:
            yield note(
                "computed-in-float32",
                model.cut.model.name,
                backend=result.request.backend.name,
                layers=wide,
                of_layers=layers,
                dtype=dtype,
            )


def short_float(model: CanonicalModel) -> str:
    """Short float type of a model's inputs and weights; empty without one."""
    types = {model.tensors[name].dtype for name in (*model.inputs, *model.weights)}
    return next((each for each in _FLOATS if each in types), "")


def _wide_layers(model: CanonicalModel) -> int:
    """Number of layers that write float32."""
    return sum(
        any(model.tensors[name].dtype == "float32" for name in layer.outputs if name)
        for layer in model.layers
    )


_UNCERTAIN = 0.1  #: Minimum relative half-width of a brick's interval that counts as uncertain.

#: Share of the sum over all bricks from which uncertain bricks make the whole doubtful.
_MOST = 0.5

_NAMED = 3  #: Maximum number of places named for one reason of failure.

#: Code of the note on a brick that was timed while something disturbed the machine.
_DISTURBED = "timed-while-disturbed"


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
    """A remark on figures."""

    effect: Effect  #: Effect on the figures.
    text: str  #: One sentence without a full stop.

    @classmethod
    def of(cls, note: Note) -> Remark:
        """The remark of a note."""
        return cls(_EFFECTS[note.severity], text_of(note))


_EFFECTS: Mapping[Severity, Effect] = {
    "doubtful": Effect.DOUBTFUL,
    "warning": Effect.WARNING,
    "info": Effect.NOTE,
}


def run_remarks(result: RunResult, columns: Iterable[FilledColumn] = ()) -> list[Remark]:
    """Remarks on a run, the worst first."""
    return ranked(
        [
            *_of_samples({"": result}, result.ledger.warnings),
            *_of_partial(result.models),
            *_of_predicted(result),
            *map(Remark.of, result.ledger.notes),
            *map(Remark.of, arithmetic_notes(result)),
            *_of_models(result.models),
            *map(Remark.of, column_problems(columns)),
        ]
    )


def _of_models(models: Sequence[ModelResult]) -> Iterator[Remark]:
    """Notes on models, grouped by note."""
    noted: dict[Note, list[str]] = {}
    for model in models:
        for each in model.notes:
            noted.setdefault(each, []).append(model.cut.model.name)
    for each, names in noted.items():
        yield Remark.of(each.about(listed(names, _NAMED)))


def comparison_remarks(
    runs: Mapping[str, RunResult], disturbances: Sequence[Note], notes: Iterable[Note]
) -> list[Remark]:
    """Remarks on runs on several backends, the worst first."""
    return ranked([*_of_samples(runs, disturbances), *map(Remark.of, notes)])


def ranked(remarks: Iterable[Remark]) -> list[Remark]:
    """Distinct remarks in the order of their effect."""
    return sorted(dict.fromkeys(remarks), key=lambda remark: remark.effect)


def _of_samples(runs: Mapping[str, RunResult], disturbances: Sequence[Note]) -> Iterator[Remark]:
    disturbed = [f"{text_of(each)} while measuring" for each in disturbances]
    for name, run in runs.items():
        on = f" on {name}" if name else ""
        of = _Bricks.of(run)
        values = "latencies" if run.request.metric is None else "values"
        unsure = f"{of.text(of.uncertain)}{of.models(of.uncertain)}{on}"
        uncertain = f"{values} of {unsure} are uncertain by more than ±{_UNCERTAIN:.0%}"
        where = f"{of.text(of.scattered)}{of.models(of.scattered)}{on}"
        scatter = f"samples of {where} scatter widely"
        if of.are_most(of.uncertain):
            yield Remark(Effect.DOUBTFUL, uncertain)
        elif of.uncertain:
            yield Remark(Effect.WARNING, uncertain)
        elif disturbed and of.are_most(of.scattered):
            yield Remark(Effect.DOUBTFUL, scatter)
        elif of.scattered:
            yield Remark(Effect.NOTE, f"{scatter}; the intervals include this")
        if of.short:
            yield Remark(Effect.NOTE, f"{of.text(of.short)}{on} take less than 1 ms a run")
        for flag, number in of.flags.items():
            yield Remark(Effect.WARNING, f"{number} of {len(of.every)} bricks{on}: {flag}")
    yield from (Remark(Effect.WARNING, text) for text in disturbed)


@dataclass(frozen=True)
class _Bricks:
    """Bricks of a run, by the doubts about their samples."""

    every: Sequence[BrickResult]  #: Those with a figure.
    lack: bool  #: Whether others have none, as where whole models ran.
    uncertain: Sequence[BrickResult]
    scattered: Sequence[BrickResult]
    short: Sequence[BrickResult]
    flags: Mapping[str, int]
    within: Mapping[str, frozenset[str]]  #: Signatures of each model's bricks.

    @classmethod
    def of(cls, run: RunResult) -> _Bricks:
        samples = {b.brick.signature: b.latency.samples for b in run.bricks if _is_timed(b)
                   and b.latency}  # fmt: skip

        def those(signatures: set[str]) -> list[BrickResult]:
            """Bricks whose latency rests on samples of one of these signatures."""
            return [
                each
                for each in run.bricks
                if not signatures.isdisjoint(run.timed.get(each.brick.signature, ()))
            ]

        return cls(
            every=[each for each in run.bricks if each.latency],
            lack=not all(each.latency for each in run.bricks),
            # Adaptive measuring leaves bricks uncertain if the estimates are precise enough.
            uncertain=[each for each in run.bricks if _is_uncertain(each) and not run.adaptive],
            scattered=those({s for s, values in samples.items() if scatters(values)}),
            short=those({b.brick.signature for b in run.bricks if _is_short(b)}),
            flags=Counter(
                flag
                for each in run.bricks
                if each.brick.signature in samples
                for flag in set(_flags(each))
            ),
            # A model at several sizes has a result for each.
            within={
                name: frozenset(s for each in several for s in each.cut.counts)
                for name, several in run.by_name.items()
            },
        )

    def are_most(self, some: Sequence[BrickResult]) -> bool:
        """Whether some bricks make up most of the sum over all."""
        return bool(some) and (share(some, self.every) or 1.0) >= _MOST

    def models(self, some: Sequence[BrickResult]) -> str:
        """Words that name the models of some bricks, where others have none of them."""
        signatures = {each.brick.signature for each in some}
        found = [name for name, own in self.within.items() if not own.isdisjoint(signatures)]
        return f" of {listed(found, _NAMED)}" if 0 < len(found) < len(self.within) else ""

    def text(self, some: Sequence[BrickResult]) -> str:
        """Text on the number of bricks, and on their share of the sum."""
        part = share(some, self.every)
        of = "" if part is None else f" ({part:.0%} of the sum)"
        known = " with figures" if self.lack else ""
        return f"{len(some)} of {len(self.every)} bricks{known}{of}"


def _flags(each: BrickResult) -> list[str]:
    """Disturbances of the machine while a brick was timed."""
    return [text_of(note) for note in each.warnings if note.code == _DISTURBED]


def sample_warnings(each: BrickResult) -> list[str]:
    """Doubts about a brick's samples in a few words; the JSON file has the figures."""
    if each.latency is None or not _is_timed(each):
        return []
    samples = each.latency.samples
    usual = {"samples scatter": scatters(samples), "below 1 ms": _is_short(each)}
    return [*(text for text, holds in usual.items() if holds), *sorted({*_flags(each)})]


def _is_timed(each: BrickResult) -> bool:
    return each.latency is not None and bool(each.latency.samples) and not each.derived_from


def _is_short(each: BrickResult) -> bool:
    """Whether a latency is too short for a clock to resolve it well."""
    if each.latency is None or not _is_timed(each) or each.quantity != LATENCY:
        return False
    return is_short(each.latency.samples)


def _is_uncertain(each: BrickResult) -> bool:
    """Whether samples leave a brick uncertain; predictions widen models' intervals instead."""
    if each.latency is None or each.interval_ms is None or each.origin == "predicted":
        return False
    low, high = each.interval_ms
    return (high - low) / 2 > _UNCERTAIN * each.latency.value


def _of_predicted(result: RunResult) -> Iterator[Remark]:
    predicted = [each for each in result.bricks if each.origin == "predicted"]
    if predicted and not result.adaptive:
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
    lacking = [f"{m.cut.model.name} {len(m.missing)} of {len(m.cut.counts)}" for m in partial]
    operators = {
        operator
        for model in partial
        for signature, reason in model.unsupported.items()
        for operator in blamed_operators(model.cut.operators(signature), reason)
    }
    unsupported = f"; unsupported: {', '.join(sorted(operators))}" if operators else ""
    low = sum(model.estimate.value is not None for model in partial)
    bounds = [f"{count(low, 'estimate')} too low"] if low else []
    if without := len(partial) - low:
        bounds.append(f"{count(without, 'model')} without an estimate")
    yield Remark(
        Effect.INCOMPLETE,
        f"{' and '.join(bounds)}, because bricks are missing: {listed(lacking, _NAMED)}"
        f"{unsupported}",
    )


def blamed_operators(operators: Sequence[str], reason: str) -> Sequence[str]:
    """Operators of a brick that a reason names, or the brick's only operator."""
    words = set(re.findall(r"\w+", reason))
    named = [each for each in operators if each.rpartition(".")[2] in words]
    return named or [each for each in operators if len(operators) == 1]


def alike(failures: Iterable[Failure], most: int | None = None) -> list[tuple[str, str]]:
    """Places and reasons of failures, grouped by model and reason.

    Args:
        failures: The failures.
        most: Maximum number of places named for one reason; ``None`` for all.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        # A failed model is grouped with other models that failed for the same reason.
        model, what = (failure.subject, failure.part) if failure.part else ("", failure.subject)
        together.setdefault((model, failure.reason), []).append(what)
    found = []
    for (model, reason), places in together.items():
        named = listed(places, most or len(places))
        found.append((f"{model}: {named}" if model else named, reason))
    return found


_STYLES = {
    Effect.DOUBTFUL: "bold red",
    Effect.INCOMPLETE: "red",
    Effect.WARNING: "yellow",
    Effect.NOTE: "dim",
}


def print_warnings(console: Console, remarks: Iterable[Remark], failures: int = 0) -> None:
    """Prints the remarks that belong above the figures: all except notes."""
    _print(console, (remark for remark in remarks if remark.effect < Effect.NOTE))
    if failures:
        text = f" {count(failures, 'failure')}, named below the figures"
        console.print(styled(("Failed:", "red"), text))


def print_notes(console: Console, remarks: Iterable[Remark]) -> None:
    """Prints the notes, which belong below the figures."""
    _print(console, (remark for remark in remarks if remark.effect == Effect.NOTE))


def print_failures(console: Console, failures: Iterable[Failure]) -> None:
    """Prints all failures; failures of a model with the same reason share a line."""
    for where, reason in alike(failures, _NAMED):
        console.print(styled(("Failed:", "red"), f" {where}: {reason}"))


def _print(console: Console, remarks: Iterable[Remark]) -> None:
    for remark in remarks:
        console.print(
            styled((f"{remark.effect.label}:", _STYLES[remark.effect]), f" {remark.text}")
        )
