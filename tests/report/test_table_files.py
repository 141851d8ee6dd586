"""Tables as comma-separated values and Markdown."""

import csv
import io

import pytest

from dlbricks_core.commands.options.output import TablesOnly
from dlbricks_core.report.tables import (
    Console,
    as_csv,
    as_markdown,
    lines,
    styled,
    table,
)


@pytest.fixture
def shown():
    found = table("Model", "Estimate")
    found.add_row("a|b*c", "1.50")
    found.add_row(lines("one", styled(("two", "bold"))), "-")
    found.add_row("=1+1\x1b[31m", "-0.5")
    return found


def test_values_with_commas_between(shown):
    assert [*csv.reader(io.StringIO(as_csv(shown)))] == [
        ["Model", "Estimate"],
        ["a|b*c", "1.50"],
        ["one\ntwo", ""],
        ["'=1+1\\x1b[31m", "-0.5"],
    ]


def test_markdown_shows_names_literally_and_numbers_on_the_right(shown):
    assert as_markdown(shown).splitlines() == [
        "| Model | Estimate |",
        "|:--|--:|",
        r"| a\|b\*c | 1.50 |",
        "| one<br>two | - |",
        r"| =1+1\\x1b\[31m | -0.5 |",
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_other_text_goes_to_standard_error(shown, capsys, quiet):
    console = TablesOnly("markdown", Console(stderr=True, quiet=quiet), quiet=quiet)
    console.print("before")
    console.print(shown)
    console.print()
    console.print(shown)
    done = capsys.readouterr()
    both = f"{as_markdown(shown)}\n{as_markdown(shown)}"
    assert (done.out, done.err) == (("", "") if quiet else (both, "before\n"))


def test_a_command_prints_its_table_alone(dlbricks):
    done = dlbricks("list", "plugins", "--format", "csv")
    rows = [*csv.reader(io.StringIO(done.out))]
    assert rows[0] == ["Kind", "Name", "Package", "Framework", "Status"]
    assert {len(row) for row in rows} == {5}
    assert "importer onnx: " in done.err
    refused = dlbricks("list", "plugins", "--format", "xml")
    assert refused.status == 2
