"""Tables of a study's page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dlbricks_core.report.analysis.page import similarity_table, types_table
from dlbricks_core.report.analysis.words import share
from dlbricks_core.report.evaluation.words import TOLERANCES, percent
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import between, or_dash
from dlbricks_core.report.study.plots import within
from dlbricks_core.report.study.record import StudyRecord
from dlbricks_core.report.study.tables import totals

_DEEPEST = 45
"""Maximum percentage of a colour in a cell's background."""

_FARTHEST = 0.5
"""Relative error with the deepest colour."""

_WITHIN = [f"% within ±{100 * tolerance:.0f}%" for tolerance in TOLERANCES]


def all_tables(study: StudyRecord) -> dict[str, Table]:
    """Tables of all sections by name."""
    return {
        "short": _short(study),
        "totals": _totals(study),
        "layers": _layers(study),
        "types": types_table(study.repetition),
        "similarity": similarity_table(study.similarity),
        "latency": _latency(study),
        "normalized": _normalized(study),
        "granularities": _granularities(study),
        "speedups": _speedups(study),
    }


def published_tables(study: StudyRecord) -> dict[int, Table]:
    """Published numbers beside the study's own, by the paper's figure; empty for other models."""
    found = study.data["published"]
    if not found:
        return {}
    number = found.get("models")
    caption = (
        f"The paper's own figures are of {number} models, those here of {len(study.models)} of "
        "them."
        if number
        else "The paper's own figures beside those of this study."
    )
    return {
        figure: table(
            ["", Column("Where", is_text=True), "Paper", "Here"],
            [
                [each["what"], each["where"] or "–", each["paper"], each["ours_text"]]
                for each in study.published(figure)
            ],
            caption,
            names_wrap=True,
        )
        for figure in dict.fromkeys(each["figure"] for each in found["figures"])
    }


def _short(study: StudyRecord) -> Table:
    return table(
        ["Bricks", "Timed bricks", "Geometric mean", "MAPE in %", *_WITHIN, "Speedup",
         "Wall-clock"],
        [
            [
                way.label,
                f"{way.data['timed_bricks']:,}",
                _number(way.data["geometric_mean"]),
                _percent(way.data["mape"]),
                *(_percent(way.data[within(tolerance)], ".0f") for tolerance in TOLERANCES),
                _speedup(way.speedups["paper"]),
                _speedup(way.speedups["wall_clock"]),
            ]
            for way in study.ways
        ],
        "Estimate over measured latency, over the models. Speedup: one run of each model over one "
        "run of each unique brick, as the paper defines it; wall-clock: seconds that were spent, "
        "loading included.",
    )  # fmt: skip


def _totals(study: StudyRecord) -> Table:
    return table(
        ["Model", "Measured", "Sequential", "Parallel", "Sequential / measured",
         "Parallel / measured"],
        [
            [
                str(row["model"]),
                *(_ms(row[name]) for name in ("measured_ms", "sequential_ms", "parallel_ms")),
                _number(row["sequential_normalized"]),
                _number(row["parallel_normalized"]),
            ]
            for row in totals(study)
        ],
        "Latencies in ms.",
    )  # fmt: skip


def _layers(study: StudyRecord) -> Table:
    counts = [(each.name, each.repetition.total) for each in study.models]
    return table(
        ["Model", "Layers", "Unique", "Share"],
        [
            [name, f"{count.layers:,}", f"{count.unique:,}", share(count)]
            for name, count in [*counts, ("all", study.repetition.total)]
        ],
    )


def _latency(study: StudyRecord) -> Table:
    return table(
        ["Model", "Measured", "90% interval", "Runs"],
        [
            [each.name, _ms(each.measured_ms), between(each.interval_ms), str(each.runs)]
            for each in study.models
        ],
        "Latencies in ms.",
    )


def _normalized(study: StudyRecord) -> Table:
    return table(
        ["Model", *(way.label for way in study.ways)],
        [
            [
                model.name,
                *(_Shade((way.of(model) or {}).get("normalized")).cell for way in study.ways),
            ]
            for model in study.models
        ],
        "Every granularity of the paper's composer, and our own composers. The deeper the colour "
        "of a cell, the farther it is from 1.",
    )


def _granularities(study: StudyRecord) -> Table:
    return table(
        ["Bricks", "Models", "Geometric mean", "MAPE in %", *_WITHIN, "% covered", "Worst",
         Column("Model", is_text=True)],
        [
            [
                way.label,
                str(len(way.models)),
                _number(way.data["geometric_mean"]),
                _percent(way.data["mape"], ".2f"),
                *(_percent(way.data[within(tolerance)], ".0f") for tolerance in TOLERANCES),
                _percent(way.data["coverage"], ".0f"),
                percent(worst["error"]) if worst else "–",
                worst["name"] if worst else "–",
            ]
            for way in study.ways
            for worst in [way.data["worst"]]
        ],
        "Errors are relative to the measured latency. Covered: intervals that hold it.",
    )  # fmt: skip


def _speedups(study: StudyRecord) -> Table:
    return table(
        ["Bricks", "Timed bricks", "Models, one run", "Bricks, one run", "Speedup",
         "Models, wall-clock", "Bricks, wall-clock", "Wall-clock speedup"],
        [
            [way.label, f"{way.data['timed_bricks']:,}", *_costs(way.speedups.values())]
            for way in study.ways
        ],
        "Times in seconds. One run: of each network, as the paper defines it.",
    )  # fmt: skip


def _costs(speedups: Iterable[Mapping[str, float] | None]) -> list[str]:
    found = []
    for each in speedups:
        if each:
            found += [f"{each['models_s']:.4g}", f"{each['bricks_s']:.4g}", _speedup(each)]
        else:
            found += ["–", "–", "–"]
    return found


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}"


def _percent(value: float | None, style: str = ".1f") -> str:
    return "–" if value is None else format(100 * value, style)


def _ms(value: Any) -> str:
    return or_dash(None if value is None else float(value))


def _speedup(found: Mapping[str, float] | None) -> str:
    return f"{found['speedup']:.2f}" if found else "–"


@dataclass(frozen=True)
class _Shade:
    """A cell of a table; the deeper its colour, the farther the value is from 1."""

    value: float | None

    @property
    def cell(self) -> Cell:
        """The cell."""
        return Cell("–" if self.value is None else f"{self.value:.2f}", style=self.style)

    @property
    def style(self) -> str:
        """Style of the cell, with different colours for low and high values."""
        if self.value is None:
            return ""
        colour = "--series-0" if self.value < 1 else "--series-1"
        depth = _DEEPEST * min(abs(self.value - 1) / _FARTHEST, 1)
        return f"background: color-mix(in srgb, var({colour}) {depth:.0f}%, transparent)"
