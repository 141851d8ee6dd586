"""Two finished results side by side: changes of their figures, versions, options and systems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, TypedDict

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Failure, System
from dlbricks_core.report import data as common
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import Console, ms, styled, table
from dlbricks_core.wording import count
from dlbricks_records.json_records import RecordedFigures
from dlbricks_records.record import Record


@dataclass(frozen=True)
class RecordedDifference:
    """A difference in the basis of figures: a version, an option, a fact of the system."""

    what: str  #: Name of the differing fact.
    then: str  #: Its value behind the old figures.
    now: str  #: Its value for the new figures; empty without a value.


class ResultsCompareData(common.ListedFailuresData):
    """Output of ``dlbricks results compare``."""

    quantity: common.QuantityData  #: The quantity that both results are of, with its unit.
    limit: float  #: Increase of a figure that passes, as a share.
    written_at: list[str]  #: When each result was written, the older one first.
    differences: list[RecordedDifference]  #: Differences in what stands behind the figures.
    models: list[ChangedFigureData]  #: Figures that both results have.


class ChangedFigureData(TypedDict):
    """A figure of a model on a backend in two results."""

    name: str  #: Name of the model.
    backend: str  #: Name of the backend.
    #: Compared figure: of the whole model, or the estimate.
    figure: Literal["measured", "estimate"]
    then: RecordedFigures  #: Figures of the older result.
    now: RecordedFigures  #: Figures of the newer result.
    ratio: float  #: New figure over the old one.
    interval: common.Interval  #: 90% interval of the ratio.
    #: Whether it increased or decreased beyond the limit; unclear where the interval of the ratio
    #: holds 1 and reaches beyond the limit.
    verdict: str


class FigureChangeData(TypedDict):
    """A new figure over an old one."""

    value: float  #: The ratio.
    interval: common.Interval  #: Its 90% interval, of the scatter of both.
    agrees: bool  #: Whether the interval holds 1.


_UNSAID = frozenset({"memory"})  #: Facts of a system that vary slightly from boot to boot.


@dataclass(frozen=True)
class Change:
    """Ratio of a new figure to an old one."""

    value: float  #: The ratio.
    low: float  #: Lower end of its 90% interval.
    high: float  #: Upper end of its 90% interval.

    @classmethod
    def of(
        cls,
        then: float | None,
        before: common.Interval | None,
        now: float | None,
        after: common.Interval | None,
    ) -> Self | None:
        """The ratio of two independent figures; ``None`` if one of them or its interval is unknown.

        The variances of both logarithms are recovered from the ends of the intervals (Zou and
        Donner, 2008, "Construction of confidence limits about effect measures: a general approach",
        Statistics in Medicine).
        """
        if then is None or before is None or now is None or after is None:
            return None
        if min(then, now, *before, *after) <= 0:
            return None
        ratio = now / then
        below = math.hypot(math.log(now / after[0]), math.log(before[1] / then))
        above = math.hypot(math.log(after[1] / now), math.log(then / before[0]))
        return cls(ratio, ratio * math.exp(-below), ratio * math.exp(above))

    @property
    def agrees(self) -> bool:
        """Whether both figures may be equal: the interval contains 1."""
        return self.low <= 1 <= self.high


@dataclass(frozen=True)
class ThenAndNow:
    """Figures of a model on a backend, old and new."""

    then: RecordedFigures  #: The old ones.
    now: RecordedFigures  #: The new ones.

    @property
    def estimate(self) -> Change | None:
        """Change of the estimate; ``None`` also if one estimate lacks bricks."""
        if self.then.missing or self.now.missing:
            return None
        return Change.of(
            self.then.estimate, self.then.interval, self.now.estimate, self.now.interval
        )

    @property
    def measured(self) -> Change | None:
        """Change of the figure of the whole model."""
        then, now = self.then, self.now
        return Change.of(then.measured, then.measured_interval, now.measured, now.measured_interval)


def of_system(then: System, now: System) -> Iterator[RecordedDifference]:
    """Differences between systems."""
    for each in fields(System):
        if each.name not in _UNSAID:
            old, new = (_in_words(getattr(system, each.name)) for system in (then, now))
            yield from if_other(f"system, {each.name.replace('_', ' ')}", old, new)


def by_name(
    what: str, then: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[RecordedDifference]:
    """Differences between texts by name."""
    for name in sorted({*then, *now}):
        yield from if_other(f"{what} {name}", then.get(name, ""), now.get(name, ""))


def if_other(what: str, then: str, now: str) -> Iterator[RecordedDifference]:
    """The difference between two texts, if there is one."""
    if then != now:
        yield RecordedDifference(what, then, now)


def _in_words(fact: Any) -> str:
    if isinstance(fact, tuple):
        return ", ".join(map(str, fact))
    return "" if fact is None else str(fact)


LIMIT = 0.05  #: Increase of a figure that passes unless the user says otherwise.

Direction = Literal["more", "less", "unclear", "within"]


@dataclass(frozen=True)
class ChangedFigure:
    """Change of a model's figure on a backend."""

    pair: ThenAndNow  #: RecordedFigures before and after.
    #: Which figure is compared: ``measured`` where both results have it, else ``estimate``.
    basis: Literal["measured", "estimate"]
    change: Change  #: Ratio of the figures.
    limit: float  #: Increase that passes, relative to the figure before.

    @property
    def verdict(self) -> Direction:
        """``more`` or ``less`` beyond the limit where the 90% interval of the ratio excludes 1.

        ``unclear`` where the interval holds 1 and reaches beyond the limit: no figure has shown
        that nothing changed. Otherwise ``within``.
        """
        change, most = self.change, 1 + self.limit
        if change.agrees and not 1 / most <= change.low <= change.high <= most:
            return "unclear"
        if 1 / most <= change.value <= most:
            return "within"
        return "more" if change.value > 1 else "less"


@dataclass(frozen=True)
class TwoResults:
    """Two results of the same quantity."""

    before: Record  #: The older result.
    after: Record  #: The newer one.
    differences: Sequence[RecordedDifference]  #: Differences in what stands behind the figures.
    changed: Sequence[ChangedFigure]  #: Changes, in the order of the older result.
    failures: Sequence[Failure]  #: Models without a change, with the reason.

    @classmethod
    def of(cls, before: Record, after: Record, limit: float = LIMIT) -> Self:
        """Compares the figures of all models, backend by backend."""
        if (before.quantity, before.unit) != (after.quantity, after.unit):
            raise DLBricksError(
                f"the results are of different quantities: {before.quantity} in {before.unit}, "
                f"{after.quantity} in {after.unit}",
                hint="Name two results of one quantity.",
            )
        old, new = _by_model(before), _by_model(after)
        changed, failures = [], []
        for key in dict.fromkeys([*old, *new]):
            found = _changed(old.get(key), new.get(key), limit)
            if isinstance(found, str):
                failures.append(Failure(f"{key[0]} on {key[1]}", found, "read"))
            else:
                changed.append(found)
        return cls(before, after, [*_differences(before, after)], changed, failures)

    @property
    def increased(self) -> list[ChangedFigure]:
        """Changes that exceed the limit, clearly."""
        return [each for each in self.changed if each.verdict == "more"]


_Key = tuple[str, str, int]  #: A model and a backend; models of one name are numbered.


def _by_model(record: Record) -> dict[_Key, RecordedFigures]:
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for each in record.figures:
        name = each.model, each.backend
        found[*name, seen[name]] = each
        seen[name] += 1
    return found


def _changed(
    then: RecordedFigures | None, now: RecordedFigures | None, limit: float
) -> ChangedFigure | str:
    """The change, or the reason why there is none."""
    if then is None or now is None:
        return f"it is not in the {'older' if then is None else 'newer'} result"
    pair = ThenAndNow(then, now)
    if pair.measured is not None:
        return ChangedFigure(pair, "measured", pair.measured, limit)
    if pair.estimate is not None:
        return ChangedFigure(pair, "estimate", pair.estimate, limit)
    return "the results have no figure of one kind for it, complete and with an interval"


def _differences(before: Record, after: Record) -> Iterator[RecordedDifference]:
    yield from if_other("DLBricks", before.version, after.version)
    yield from if_other("protocol", before.protocol.identity, after.protocol.identity)
    yield from if_other("threads", str(before.protocol.threads), str(after.protocol.threads))
    backends = {each.name: each for each in after.backends}
    for old in before.backends:
        if (new := backends.get(old.name)) is not None:
            yield from if_other(old.name, old.version, new.version)
            yield from if_other(f"plugin {old.name}", old.plugin, new.plugin)
            yield from by_name(f"{old.name}, option", old.settings, new.settings)
            yield from by_name(f"{old.name}, variable", old.environment, new.environment)
    structures = {each.name: each.structure for each in after.models}
    for model in before.models:
        now = structures.get(model.name, model.structure)
        yield from if_other(f"{model.name}, structure", model.structure, now)
    yield from of_system(before.system, after.system)


_LONGEST = 60  #: Maximum characters of a value in a line on a difference.

_OF_LATENCY = {"more": "slower", "less": "faster"}
_STYLES: Mapping[str, str] = {"more": "red", "less": "green", "unclear": "yellow"}


def print_comparison(console: Console, found: TwoResults, limit: float) -> None:
    """Prints the number of slower models, the change of each model, and other differences."""
    words = _OF_LATENCY if found.before.quantity == LATENCY.name else {}
    total = count(len(found.changed), "figure")
    beyond = f"{words.get('more', 'more')} by more than {100 * limit:g}%"
    unclear = sum(each.verdict == "unclear" for each in found.changed)
    answer = f"{len(found.increased)} of {total} {beyond}{f', {unclear} unclear' * (unclear > 0)}."
    console.print(styled((answer, "bold red" if found.increased else "bold")))
    several = len(found.before.backends) > 1
    columns = ["Model", *(["Backend"] if several else []), "Figure"]
    shown = table(*columns, "Before", "After", "Ratio", "90% interval", "", left=len(columns))
    for each in found.changed:
        names = [each.pair.then.model, *([each.pair.then.backend] if several else [])]
        figures = (getattr(side, each.basis) for side in (each.pair.then, each.pair.now))
        verdict = words.get(each.verdict, each.verdict)
        shown.add_row(
            *names,
            each.basis,
            *map(ms, figures),
            *ratio_cells(each.change),
            styled((verdict, _STYLES.get(each.verdict, ""))),
        )
    console.print(shown)
    unclear = any(each.verdict == "unclear" for each in found.changed)
    explained = (
        f" Unclear: the 90% interval of the ratio holds 1 and changes beyond {100 * limit:g}%."
        if unclear
        else ""
    )
    console.print(f"In {found.before.unit}.{explained}")
    for difference in found.differences:
        console.print(styled(("Differs:", "yellow"), f" {difference_text(difference)}"))
    print_failures(console, found.failures)


def comparison_data(found: TwoResults, limit: float) -> ResultsCompareData:
    """Two results side by side as a JSON object for scripts."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "quantity": {"name": found.before.quantity, "unit": found.before.unit},
        "limit": limit,
        "written_at": [found.before.written_at, found.after.written_at],
        "differences": [common.plain(each) for each in found.differences],
        "models": [_model(each) for each in found.changed],
        "failures": common.failures_data(found.failures),
    }


def _model(each: ChangedFigure) -> ChangedFigureData:
    return {
        "name": each.pair.then.model,
        "backend": each.pair.then.backend,
        "figure": each.basis,
        "then": common.plain(each.pair.then),
        "now": common.plain(each.pair.now),
        "ratio": each.change.value,
        "interval": (each.change.low, each.change.high),
        "verdict": each.verdict,
    }


def ratio_cells(change: Change | None) -> tuple[str, str]:
    """Cells for a ratio and its interval."""
    if change is None:
        return "-", "-"
    return f"{change.value:.3f}", f"{change.low:.3f}-{change.high:.3f}"


def difference_text(difference: RecordedDifference) -> str:
    """A difference in a line."""
    then, now = (_short(value) for value in (difference.then, difference.now))
    return f"{difference.what}: {then} then, {now} now"


def _short(value: str) -> str:
    text = value or "nothing"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
