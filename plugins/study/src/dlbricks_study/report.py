"""Studies in sentences and tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from dlbricks_core.compose.options import DEFAULT_COMPOSER
from dlbricks_core.report.files import file_error, write_json, write_text
from dlbricks_core.report.notes import texts
from dlbricks_core.report.tables import Console, styled, table
from dlbricks_core.sanitize import cell, sanitized
from dlbricks_core.wording import count
from dlbricks_study.record import StudyRecord, WayRecord

_NAMED = 3
"""Maximum number of places named for one reason of failure."""


def models(study: StudyRecord) -> str:
    """The study's models: the name of a single one, or their number."""
    return study.models[0].name if len(study.models) == 1 else f"{len(study.models)} models"


def subject(study: StudyRecord) -> str:
    """Models and backend of a study."""
    backend = study.data["backend"]
    return f"{models(study)} on {backend['name']} {backend['version']}"


def answer(study: StudyRecord) -> list[str]:
    """Sentences on the accuracy of estimates, and on repetition."""
    count = study.repetition.total
    lines = []
    way = next((way for way in study.own if way.composer == DEFAULT_COMPOSER), None)
    if way and way.models:
        data = way.data
        worst = data["worst"]
        mean = " on average" if len(way.models) > 1 else ""
        lines.append(
            f"{subject(study)}: estimates by the composer {way.label} are "
            f"off by {data['mape']:.1%}{mean} (geometric mean of estimate/measured "
            f"{data['geometric_mean']:.3f}, worst {worst['name']} {worst['error']:+.1%})."
        )
    else:
        lines.append(f"{subject(study)}: no estimates.")
    share = "" if count.unique_share is None else f" ({count.unique_share:.1%})"
    lines.append(f"Of {count.layers:,} layers, {count.unique:,} are unique{share}.")
    return lines


def setting(study: StudyRecord) -> str:
    """Setting of the study: how, where and when it was measured."""
    backend, settings = study.data["backend"], study.data["settings"]
    options = "".join(f", {name}={value}" for name, value in backend["settings"].items())
    runs, threads = count(settings["runs"], "run"), count(settings["threads"], "thread")
    when = f"; measured {study.span}" if study.span else ""
    return (
        f"{backend['name']} {backend['version']}{options}; {threads}; {settings['protocol']} "
        f"protocol ({settings['statistic']}, {runs}){when}; "
        f"{study.data['system']['description']}"
    )


def failures(study: StudyRecord) -> list[tuple[str, str]]:
    """Failures with their reasons; of many places with one reason, the first are named."""
    places: dict[str, list[str]] = {}
    for each in study.data["failures"]:
        places.setdefault(each["reason"], []).append(each["where"])
    return [
        (", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else ""), reason)
        for reason, named in places.items()
        for more in [len(named) - _NAMED]
    ]


#: Values by column; ``None`` for an unknown value.
Row = Mapping[str, str | int | float | bool | None]


def latencies(study: StudyRecord) -> Iterator[Row]:
    """Figure 9: measured end-to-end latency of each model, with its 90% interval."""
    for model in study.models:
        if model.measured_ms is None or model.interval_ms is None:
            continue
        low, high = model.interval_ms
        yield {
            "model": model.name,
            "source": model.source,
            "measured_ms": model.measured_ms,
            "low_ms": low,
            "high_ms": high,
            "runs": model.runs,
        }


def totals(study: StudyRecord) -> Iterator[Row]:
    """Figure 3: sequential and parallel total latency, over the measured one."""
    way = study.finest
    for each in way.models:
        yield {
            "model": each["name"],
            "granularity": way.granularity,
            "measured_ms": each["measured"],
            "sequential_ms": each["estimate"],
            "parallel_ms": each["parallel_estimate"],
            "sequential_normalized": each["normalized"],
            "parallel_normalized": each["parallel_estimate"] / each["measured"],
        }


def layers(study: StudyRecord) -> Iterator[Row]:
    """Figure 5: all layers and unique layers of each model."""
    for each in study.models:
        count = each.repetition.total
        yield {
            "model": each.name,
            "source": each.source,
            "layers": count.layers,
            "unique_layers": count.unique,
            "unique_share": count.unique_share,
        }


def repeated_types(study: StudyRecord) -> Iterator[Row]:
    """Figure 6: operator types of each model's repeated layers."""
    for each in study.models:
        for operator, layers in each.repetition.types.items():
            yield {
                "model": each.name,
                "operator": operator,
                "layers": layers.layers,
                "unique_layers": layers.unique,
                "repeated_layers": layers.repeated,
                "share_of_repeated": each.repetition.repeated_shares.get(operator, 0.0),
            }


def similarities(study: StudyRecord) -> Iterator[Row]:
    """Figure 7: Jaccard similarity of every two models' sets of unique layers."""
    similarity = study.similarity
    for first, row in zip(similarity.names, similarity.matrix, strict=True):
        for second, value in zip(similarity.names, row, strict=True):
            yield {"first": first, "second": second, "jaccard": value}


def normalized(study: StudyRecord) -> Iterator[Row]:
    """Figure 10: estimate over measured latency of each model in each way."""
    for way in study.ways:
        for each in way.models:
            low, high = each["interval"] or (None, None)
            yield {
                "model": each["name"],
                **_way(way),
                "estimate_ms": each["estimate"],
                "low_ms": low,
                "high_ms": high,
                "parallel_estimate_ms": each["parallel_estimate"],
                "measured_ms": each["measured"],
                **{name: each[name] for name in _OF_MODEL},
            }


def granularities(study: StudyRecord) -> Iterator[Row]:
    """Figure 11: geometric mean of the normalized latencies, and the errors that it hides."""
    for way in study.ways:
        worst = way.data["worst"] or {}
        yield {
            **_way(way),
            "models": len(way.models),
            **{name: way.data[name] for name in _OF_WAY},
            "worst_model": worst.get("name"),
            "worst_error": worst.get("error"),
            "coverage": way.data["coverage"],
        }


def speedups(study: StudyRecord) -> Iterator[Row]:
    """Figure 12: benchmarking speedup by each definition."""
    for way in study.ways:
        for definition, found in way.speedups.items():
            if found:
                yield {**_way(way), "definition": definition, **found}


def bricks(study: StudyRecord) -> Iterator[Row]:
    """Latency of the unique bricks of each way; estimates and speedups rest on these."""
    for each in study.bricks:
        yield {"latency_ms" if name == "value" else name: value for name, value in each.items()}


def _way(way: WayRecord) -> Row:
    return {"composer": way.composer, "granularity": way.granularity}


_OF_MODEL = ("normalized", "error", "covered")

_OF_WAY = (
    "layers",
    "bricks",
    "unique_bricks",
    "timed_bricks",
    "geometric_mean",
    "mape",
    "within_5_percent",
    "within_10_percent",
)

#: Tables by the name of their file, in the order of the paper's figures.
TABLES: dict[str, Callable[[StudyRecord], Iterator[Row]]] = {
    "totals": totals,
    "layers": layers,
    "repeated_types": repeated_types,
    "jaccard": similarities,
    "latency": latencies,
    "normalized": normalized,
    "granularities": granularities,
    "speedups": speedups,
    "bricks": bricks,
}


def as_csv(rows: Iterator[Row]) -> str:
    """A table as comma-separated values with a line of column names.

    Truth values are written as 1 and 0. The cell of an unknown value is empty. Names that a
    spreadsheet would run as formulas have a quote in front.
    """
    lines = [dict(row) for row in rows]
    text = io.StringIO()
    if lines:
        writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _plain(v) for k, v in line.items()} for line in lines)
    return text.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return sanitized(cell(value)) if isinstance(value, str) else value


def write_study(study: StudyRecord, page: str, folder: Path) -> None:
    """Writes ``index.html``, ``study.json`` and a CSV file for each figure of the paper.

    Args:
        study: The study.
        page: Its page, from :func:`dlbricks_core.report.study_page`.
        folder: Folder to write to, created if missing.

    Raises:
        DLBricksError: If the folder or a file cannot be written.
    """
    with file_error(f"the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(page, folder / "index.html")
    write_json(dict(study.data), folder / "study.json")
    for name, rows in TABLES.items():
        write_text(as_csv(rows(study)), folder / f"{name}.csv")


def print_study(console: Console, study: StudyRecord, folder: Path) -> None:
    """Prints the answer, doubts about it, and a table by granularity."""
    for line in answer(study):
        console.print(styled((line, "bold")))
    console.print(f"Report: {folder / 'index.html'!s}", soft_wrap=True)
    for text in texts(study.data["notes"]):
        console.print(styled(("Note:", "yellow"), f" {text}"))
    for each in study.data["left_out"]:
        text = f" {each['name']} ({', '.join(each['ways'])}): {each['reason']}"
        console.print(styled(("Left out of the figures:", "red"), text))
    console.print(_ways(study))
    console.print(
        "Bricks: timed bricks. Geo. mean, MAPE: of estimate/measured, over the "
        "models. Speedup: one run of each model over one of each brick, as in the paper. "
        "Wall: by seconds spent, loading included."
    )
    if study.data["published"]:
        console.print(_published(study))
    console.print(styled((setting(study), "dim")))
    for where, reason in failures(study):
        console.print(styled(("Failed:", "red"), f" {where}: {reason}"))


def _ways(study: StudyRecord) -> Table:
    shown = table("", "Bricks", "Geo. mean", "MAPE", "±5%", "±10%", "Speedup", "Wall")
    for way in study.ways:
        if way.own and way is study.own[0]:
            shown.add_section()
        speedups = (way.speedups["paper"], way.speedups["wall_clock"])
        shown.add_row(
            way.label,
            f"{way.data['timed_bricks']:,}",
            *_figures(way),
            *(f"{each['speedup']:.2f}x" if each else "-" for each in speedups),
        )
    return shown


def _figures(way: WayRecord) -> list[str]:
    styles = {
        "geometric_mean": ".3f",
        "mape": ".1%",
        "within_5_percent": ".0%",
        "within_10_percent": ".0%",
    }
    values = {name: way.data[name] for name in styles}
    return ["-" if v is None else format(v, styles[name]) for name, v in values.items()]


def _published(study: StudyRecord) -> Table:
    """Published numbers of the models, and the study's numbers."""
    shown = table("Of the paper's models", "Where", "Paper", "Here", left=2)
    for each in study.data["published"]["figures"]:
        shown.add_row(each["what"], each["where"], each["paper"], each["ours_text"])
    return shown
