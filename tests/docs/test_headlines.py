"""Headline figures stand in one file, from which pages quote: no page contradicts another."""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

import pytest

from dlbricks_core.cli.main import cli

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
FRONT = [ROOT / "README.md", ROOT / "docs" / "index.md"]
PAGES = [page for page in sorted(RESULTS.glob("*.md")) if page.stem != "headlines"]

FIGURE = re.compile(
    r"(?<![±\d.,])\d[\d,.]*(?:%|\s(?:s|ms|networks?|models|architectures|layers|systems|files)\b)"
)
"""A number that a page claims. Precisions that a user requests (±10%) are none."""


@pytest.fixture(scope="module")
def program():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        import headlines
    return headlines


def prose(text):
    """The text without quoted figures, code and examples of output."""
    text = re.sub(r"<!-- figure .*?<!-- / -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`", "", text)


def test_pages_quote_the_file(program):
    figures = program.quoted()
    texts = {page: page.read_text("utf-8") for page in program.pages()}
    assert [str(p) for p, text in texts.items() if program.filled(text, figures) != text] == []


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.stem)
def test_the_front_pages_have_no_figure_of_their_own(page):
    assert FIGURE.findall(prose(page.read_text("utf-8"))) == []


def test_a_figure_of_its_own_is_found():
    quoted = "for <!-- figure a.b -->54<!-- / --> networks at ±10%, `3%`.\n    9%\n"
    text = f"Off by 1.0%, in 12.5 s, {quoted}"
    assert FIGURE.findall(prose(text)) == ["1.0%", "12.5 s"]


def test_each_headline_is_quoted_on_its_page(program):
    for name, each in program.headlines().items():
        page = (RESULTS / each.page).read_text("utf-8")
        assert f"<!-- figure {name}." in page, each.page


def test_ranges_are_those_of_the_tables(program):
    for each in program.headlines().values():
        for figure, column in each.columns.items():
            assert each.figures[figure] == program.table_range(each.page, column), each.page


NUMBER = re.compile(r"\d[\d,.e-]*\d|\d")


def body(page):
    """Text of a page of results without its first sentence; marks in tables keep their text."""
    text = (RESULTS / page).read_text("utf-8").split("\n\n", 2)[2]
    return re.sub(r"<!-- (?:figure .*?|/) -->", "", text)


def failing(rows, figures):
    """Architectures beyond those that the table names as failing."""
    return str(int(figures["all"]) - len(rows))


def greatest(rows, figures):
    """Greatest difference in the table."""
    return f"{max(map(largest, rows)):.1e}".replace("e-0", "e-")


#: Figures that the body's table tells by its rows, rather than states.
COUNTED = {"coverage.agree": failing, "agreement.difference": greatest}

#: Headlines whose pages are about something else; a guide has the table, which quotes them.
ELSEWHERE = {"repeats"}


def largest(row):
    """Greatest number of a row's cells behind its number and name."""
    return max((float(c) for c in row[2:] if re.fullmatch(r"[\d.]+e-\d+", c)), default=0.0)


def first_rows(page):
    """Cells of the rows of a page's first table."""
    text = (RESULTS / page).read_text("utf-8")
    rows = text[text.index("\n|") + 1 :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_a_headline_is_what_the_body_of_its_page_shows(program):
    for name, each in program.headlines().items():
        for figure, text in ({} if name in ELSEWHERE else each.figures).items():
            if counted := COUNTED.get(f"{name}.{figure}"):
                assert text == counted(first_rows(each.page), each.figures), each.page
                continue
            shown = body(each.page)
            lacking = [
                number
                for number in NUMBER.findall(text)
                if not re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d|[.,]\d)", shown)
            ]
            assert not lacking, f"{each.page}: {name}.{figure} is {text}"


def test_the_first_run_in_the_readme_is_one_of_those_of_the_headline(program):
    """The printed example, and the figures beside it."""
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    figures = program.headlines()["first_run"].figures
    runs = list(zip(*(figures[name].split(", ") for name in ("error", "seconds", "plain")),
                    strict=True))  # fmt: skip
    (error,) = re.findall(r"estimates are off by ([\d.]+%) on average", text)
    (seconds,) = re.findall(r"estimates ([\d.]+) s █", text)
    (plain,) = re.findall(r"plain script ([\d.]+) s █", text)
    assert (error, seconds, plain) in runs


def test_each_headline_has_a_day_and_a_command_that_is_there(program):
    for each in program.headlines().values():
        assert date.fromisoformat(each.date) <= date.today()
        words = each.command.split()
        if words[0] == "python":
            assert (ROOT / words[1]).is_file()
        else:
            assert words[0] == "dlbricks"
            assert words[1].startswith("-") or words[1] in cli.list_commands(None)


def test_the_systems_are_those_of_the_reference_data(program):
    contributions = ROOT / "plugins/prediction/src/dlbricks_prediction/contributions"
    systems = {path.name.split("-")[1] for path in contributions.glob("*.npz")}
    assert program.headlines()["new_system"].figures["systems"] == str(len(systems))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_results_begins_with_a_sentence_and_a_table(page):
    title, sentence, table, *_ = page.read_text("utf-8").split("\n\n")
    assert title.startswith("# ")
    assert len(re.findall(r"[.!?](?:\s|$)", sentence)) == 1
    assert table.startswith("|")
