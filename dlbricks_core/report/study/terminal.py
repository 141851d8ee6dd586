"""A study as a table for a terminal, and as a folder of a page and its data."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from dlbricks_core.report.analysis.terminal import share
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.evaluation.terminal import TOLERANCES
from dlbricks_core.report.files import told, write_json, write_text
from dlbricks_core.report.study.published import PUBLISHED, comparable
from dlbricks_core.report.study.record import StudyRecord
from dlbricks_core.report.study.tables import TABLES, as_csv
from dlbricks_core.report.study.ways import absent, definitions, failures, label, remarks, ways
from dlbricks_core.report.tables import table
from dlbricks_core.report.run.terminal import print_failures, print_head
from dlbricks_core.workflows import Evaluation, Study


def write_study(study: StudyRecord, page: str, folder: Path) -> None:
    """Writes ``index.html``, ``study.json`` and a CSV file for each figure.

    Args:
        study: What was found out.
        page: See :func:`dlbricks_core.report.study_page`.
        folder: Made if it is not there.

    Raises:
        DLBricksError: If the folder or a file cannot be written.
    """
    with told(f"the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(page, folder / "index.html")
    write_json(dict(study.data), folder / "study.json")
    for name, rows in TABLES.items():
        write_text(as_csv(rows(study)), folder / f"{name}.csv")


def print_study(console: Console, study: Study, folder: Path) -> None:
    """A table by granularity, and remarks, for a terminal of 80 columns."""
    granularities = ", ".join(map(str, study.by_granularity))
    print_head(console, study.default.result, cuts=f"G={granularities}")
    count = study.analysis.repetition.total
    number = len(study.analysis.models)
    console.print(
        f"{number} model{'' if number == 1 else 's'}: {count.layers:,} layers, {count.unique:,} "
        f"unique ({share(count)})."
    )
    console.print(_ways(study))
    console.print(
        "Bricks: those that are timed. Geo. mean, MAPE: of estimate/measured, over the "
        "models. Speedup: one run of each model over one of each brick, as in the paper. "
        "Wall: by seconds spent, loading included."
    )
    if comparable(study):
        console.print(_published(study))
    for text in remarks(study):
        console.print(styled(("Note:", "yellow"), f" {text}"))
    for model in absent(study):
        where = ", ".join(model.ways)
        text = f" {model.name} ({where}): {model.reason}"
        console.print(styled(("Left out of the figures:", "red"), text))
    print_failures(console, failures(study))
    console.print(f"Report: {folder / 'index.html'!s}", soft_wrap=True)


def _ways(study: Study) -> Table:
    shown = table("", "Bricks", "Geo. mean", "MAPE", *(f"±{t:.0%}" for t in TOLERANCES),
                  "Speedup", "Wall")  # fmt: skip
    for way in ways(study):
        if way is next(iter(study.by_composer.values())):
            shown.add_section()
        shown.add_row(
            label(way),
            f"{len(way.result.cutting.plan.timed):,}",
            *_figures(way),
            *(f"{each.speedup:.2f}x" if each else "-" for each in definitions(way).values()),
        )
    return shown


def _figures(way: Evaluation) -> list[str]:
    values = [(way.geometric_mean, ".3f"), (way.mape, ".1%")]
    values += [(way.within(tolerance), ".0%") for tolerance in TOLERANCES]
    return ["-" if value is None else format(value, style) for value, style in values]


def _published(study: Study) -> Table:
    """The paper's own figures beside ours."""
    shown = table("Of the paper's models", "Where", "Paper", "Here", left=2)
    for each in PUBLISHED:
        shown.add_row(each.what, each.where, each.text, each.ours_text(study))
    return shown
