"""A study as tables for a terminal, and as a folder of a page and its data."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.files import told, write_json, write_text
from dlbricks_core.report.study.record import StudyRecord, WayRecord
from dlbricks_core.report.study.tables import TABLES, as_csv
from dlbricks_core.report.study.words import answer, failures, setting
from dlbricks_core.report.tables import table


def write_study(study: StudyRecord, page: str, folder: Path) -> None:
    """Writes ``index.html``, ``study.json`` and a CSV file for each figure of the paper.

    Args:
        study: The study.
        page: Its page, from :func:`dlbricks_core.report.study_page`.
        folder: Folder to write to, created if missing.

    Raises:
        DLBricksError: If the folder or a file cannot be written.
    """
    with told(f"the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(page, folder / "index.html")
    write_json(dict(study.data), folder / "study.json")
    for name, rows in TABLES.items():
        write_text(as_csv(rows(study)), folder / f"{name}.csv")


def print_study(console: Console, study: StudyRecord, folder: Path) -> None:
    """Prints the answer, doubts about it, and a table by granularity.

    Args:
        console: A terminal of 80 columns.
        study: The study.
        folder: Folder that its report was written to.
    """
    for line in answer(study):
        console.print(styled((line, "bold")))
    console.print(f"Report: {folder / 'index.html'!s}", soft_wrap=True)
    for text in study.data["notes"]:
        console.print(styled(("Note:", "yellow"), f" {text}"))
    for each in study.data["left_out"]:
        text = f" {each['name']} ({', '.join(each['ways'])}): {each['reason']}"
        console.print(styled(("Left out of the figures:", "red"), text))
    console.print(_ways(study))
    console.print(
        "Bricks: those that are timed. Geo. mean, MAPE: of estimate/measured, over the "
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
    """Published numbers of the models beside those of the study."""
    shown = table("Of the paper's models", "Where", "Paper", "Here", left=2)
    for each in study.data["published"]["figures"]:
        shown.add_row(each["what"], each["where"], each["paper"], each["ours_text"])
    return shown
