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
    contributions = ROOT / "dlbricks_core" / "predict" / "contributions"
    systems = {path.name.split("-")[1] for path in contributions.glob("*.npz")}
    assert program.headlines()["new_system"].figures["systems"] == str(len(systems))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_results_begins_with_a_sentence_and_a_table(page):
    title, sentence, table, *_ = page.read_text("utf-8").split("\n\n")
    assert title.startswith("# ")
    assert len(re.findall(r"[.!?](?:\s|$)", sentence)) == 1
    assert table.startswith("|")
