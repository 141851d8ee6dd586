"""The page on what comes in: each row has tests, and its limits are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from dlbricks_study.record import STUDIES
from dlbricks_suite.folder.read import _READ_S

from dlbricks_core.commands.options.settings import IMPORT_TIMEOUT_S
from dlbricks_core.figures.protocols import TIMEOUT_S
from dlbricks_core.importers.cache import MOST_BYTES
from dlbricks_core.ir import MAX_LAYERS
from dlbricks_core.limits import LIMITS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explain" / "trust.md"

#: A test as the page names it.
TEST = re.compile(r"`([\w/.-]+\.py)::(test_\w+)`")

#: Kinds of what comes in: a row is never lost.
KINDS = {
    *("Model file", "Files beside it", "Collection", "Factory", "Language-model configuration"),
    *("Store", "Exported results", "Suite", "Record", "Study", "Prices, accuracies", "Names"),
    *("Password", "Pipe, device, folder", "Fleet host", "Fleet scheduler", "Fleet client"),
    "Third-party plugin",
}


def table():
    """Cells of the table: the heading, then the rows."""
    lines = [each for each in PAGE.read_text("utf-8").splitlines() if each.startswith("|")]
    heading, _, *rows = ([c.strip() for c in line.strip("|").split("|")] for line in lines)
    return heading, rows


HEADING, ROWS = table()
NAMED = [test for row in ROWS for test in TEST.findall(row[-1])]


@cache
def names_in(path):
    """Names of the tests of a file, which is not imported."""
    body = ast.parse((ROOT / path).read_text("utf-8")).body
    return {each.name for each in body if isinstance(each, ast.FunctionDef)}


def test_every_kind_has_a_row():
    assert {re.match(r"\*\*(.+?)\*\*", row[0])[1] for row in ROWS} == KINDS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_answers_all_questions_and_names_tests(row):
    assert len(row) == len(HEADING)
    assert all(row)
    assert TEST.findall(row[-1])
    assert TEST.sub("", row[-1]).strip() == ""


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_a_named_test_is_there(path, name):
    assert name in names_in(path)


def test_limits_are_those_of_the_code():
    text = PAGE.read_text("utf-8")
    assert set(re.findall(r"DLBRICKS_\w+", text)) <= {each.variable for each in (*LIMITS, STUDIES)}
    for words in (
        f"{IMPORT_TIMEOUT_S:g} s to import, {TIMEOUT_S:g} s to time a network",
        f"each file read in a worker, {_READ_S:g} s; each network {TIMEOUT_S:g} s",
        f"the import cache, {MOST_BYTES >> 20} MB at most",
        f"{MAX_LAYERS:,} layers",
    ):
        assert words in text
