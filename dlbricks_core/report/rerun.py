"""A repeated run beside the recorded one, as a table and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION, failures_data
from dlbricks_core.report.heading import count
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows.rerun import Change, Compared, Difference, Repetition, Rerun

_LONGEST = 60
"""Maximum characters of a value in a line on a difference."""


def print_differences(console: Console, again: Repetition) -> None:
    """Prints the differences from the record, before anything runs."""
    record = again.record
    when = record.written_at.partition("T")[0]
    what = f"{record.command} of {count(len(record.models), 'model')}, as recorded on {when}"
    if not again.differences:
        console.print(styled((f"Again: {what}. All that is recorded is the same now.", "bold")))
        return
    console.print(styled((f"Again: {what}. Not the same now:", "bold")))
    for each in again.differences:
        console.print(styled(("Differs:", "yellow"), f" {_sentence(each)}"))


def print_rerun(console: Console, rerun: Rerun) -> None:
    """Prints each figure then and now, with the ratio and its interval."""
    several = len(rerun.record.backends) > 1
    columns = ["Model", *(["Backend"] if several else []), "Figure"]
    shown = table(*columns, "Then", "Now", "Now/then", "90% interval", left=len(columns))
    for each in rerun.compared:
        names = [each.then.model, *([each.then.backend] if several else [])]
        for figure, then, now, change in _rows(each):
            shown.add_row(*names, figure, _or_dash(then), _or_dash(now), *_ratio(change))
            names = ["" for _ in names]
    console.print(shown)
    console.print(f"In {rerun.record.unit}. Intervals hold the scatter of both times.")
    changes = [change for each in rerun.compared for *_, change in _rows(each) if change]
    agreeing = sum(change.agrees for change in changes)
    if changes:
        text = f"{agreeing} of {count(len(changes), 'figure')} may be the same as then."
        console.print(styled((text, "bold")))
    if agreeing < len(changes):
        console.print("The others differ by more than samples scatter; machines drift, too.")
    print_failures(console, rerun.failures)


def rerun_data(rerun: Rerun) -> dict[str, Any]:
    """A repeated run as a JSON object for scripts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "record": rerun.record.to_dict(),
        "differences": [asdict(each) for each in rerun.differences],
        "models": [_compared(each) for each in rerun.compared],
        "agree": _agree(rerun.compared),
        **failures_data(rerun.failures),
    }


def _compared(each: Compared) -> dict[str, Any]:
    return {
        "name": each.then.model,
        "backend": each.then.backend,
        "then": asdict(each.then),
        "now": asdict(each.now),
        "estimate_ratio": _change(each.estimate),
        "measured_ratio": _change(each.measured),
    }


def _change(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    ends = [change.low, change.high]
    return {"value": change.value, "interval": ends, "agrees": change.agrees}


def _agree(compared: Sequence[Compared]) -> bool | None:
    """Whether all figures may equal the recorded ones; ``None`` if there are none to compare."""
    changes = [each for pair in compared for each in (pair.estimate, pair.measured) if each]
    return all(each.agrees for each in changes) if changes else None


_Row = tuple[str, float | None, float | None, Change | None]


def _rows(each: Compared) -> list[_Row]:
    """Name, old value, new value and ratio of each old or new figure."""
    then, now = each.then, each.now
    rows: list[_Row] = [
        ("estimate", then.estimate, now.estimate, each.estimate),
        ("measured", then.measured, now.measured, each.measured),
    ]
    return [row for row in rows if (row[1], row[2]) != (None, None)]


def _ratio(change: Change | None) -> tuple[str, str]:
    if change is None:
        return "-", "-"
    return f"{change.value:.3f}", f"{change.low:.3f}-{change.high:.3f}"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else ms(value)


def _sentence(difference: Difference) -> str:
    then, now = (_short(value) for value in (difference.then, difference.now))
    return f"{difference.what}: {then} then, {now} now"


def _short(value: str) -> str:
    text = value or "nothing"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
