"""Fills the marks of pages with headline figures, and prints the pages that changed.

A figure stands in ``docs/results/headlines.toml`` alone. Pages quote it between marks:
``<!-- figure NAME.FIGURE -->1.2%<!-- / -->``.

    python benchmarks/headlines.py
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
FILE = RESULTS / "headlines.toml"

MARK = re.compile(r"(<!-- figure ([a-z_]+\.[a-z_]+) -->)(.*?)(<!-- / -->)", re.DOTALL)
"""A quoted figure: the mark, the name, the quoted text, and the end."""


@dataclass(frozen=True)
class Headline:
    """Figures that one command gave on one day.

    Attributes:
        what: Description of the figures.
        page: Page of docs/results that explains them.
        system: Machine that they were measured on.
        date: Day of the measurement.
        command: Command that repeats it.
        figures: Figures as pages quote them, by name.
        columns: Column of the page's first table whose range a figure is, by the figure's name.
    """

    what: str
    page: str
    system: str
    date: str
    command: str
    figures: Mapping[str, str]
    columns: Mapping[str, str] = field(default_factory=dict)


def headlines() -> dict[str, Headline]:
    """All headlines by name."""
    found = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: Headline(**{**each, "date": str(each["date"])}) for name, each in found.items()}


def quoted() -> dict[str, str]:
    """All figures, by the name that marks have."""
    return {
        f"{name}.{figure}": text
        for name, each in headlines().items()
        for figure, text in each.figures.items()
    }


def pages() -> list[Path]:
    """Pages that may quote figures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str, figures: Mapping[str, str]) -> str:
    """The text of a page with the figures between its marks.

    Raises:
        KeyError: If there is no figure of a mark's name.
    """
    return MARK.sub(lambda mark: f"{mark[1]}{figures[mark[2]]}{mark[4]}", text)


def table_range(page: str, column: str) -> str:
    """Least and greatest value of a column of a page's first table: ``1.2% to 2.0%``."""
    text = (RESULTS / page).read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text[text.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    ]
    heading, _, *body = rows
    cells = [row[heading.index(column)] for row in body]
    least, most = (order(cells, key=lambda cell: float(cell.rstrip("%"))) for order in (min, max))
    return f"{least} to {most}"


def main() -> None:
    """Fills all pages."""
    figures = quoted()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text, figures)) != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
