"""Columns of other distributions: in tables and JSON, and named once where they are broken."""

import io
import json
import sys

import pytest
from dlbricks_testing.interface import results

from dlbricks_core.report.columns import (
    FilledColumn,
    OwnColumn,
    added_columns,
    column_problems,
    column_values,
    own_columns,
    shown_columns,
)
from dlbricks_core.report.notes import text
from dlbricks_core.report.tables import Console, filled_tables

HEAD = """
from dlbricks_core.report import Column
class Good(Column):
    name, heading = "extra", "Extra"
    def cell(self, result):
"""
SOUND = f"{HEAD}        return f'{{len(result.cut.occurrences)}} [bold]'\n"


@pytest.fixture
def added(distribution, monkeypatch, tmp_path):
    """Fills in a column of an installed distribution for results in any state."""

    def fill(source):
        points = "[dlbricks.columns]\nextra = extra_module:Good\n"
        distribution.install(monkeypatch, tmp_path, "extra_module", source, points)
        (column,) = (each for each in added_columns(results()) if each.name == "extra")
        return column

    yield fill
    sys.modules.pop("extra_module", None)


def printed(columns):
    """The table as a terminal shows it, with the column of names in front."""
    own = own_columns([OwnColumn("Model", lambda each: each.cut.model.name, "left")], results())
    console = Console(file=io.StringIO(), width=80)
    console.print(*filled_tables(own, shown_columns(columns), console.width))
    return console.file.getvalue()


def test_a_column_is_behind_those_of_dlbricks_and_its_text_is_literal(added):
    column = added(SOUND)
    head, _, *rows = printed([column]).strip().splitlines()
    assert head.split() == ["Model", "Extra"]
    assert [row.split() for row in rows if row.strip()] == [
        [each.cut.model.name, str(len(each.cut.occurrences)), "[bold]"] for each in results()
    ]
    assert column_values([column], 0) == {"extra": column.cells[0]}
    assert column_problems([column]) == []


def test_a_value_may_differ_from_the_cell(added):
    column = added(f"{SOUND}    def value(self, result):\n        return {{'of': [1, None]}}\n")
    assert column_values([column], 1) == {"extra": {"of": [1, None]}}


@pytest.mark.parametrize(
    ("source", "is_in_json"),
    [(f"{HEAD}        return None\n", True), (f"{SOUND}    is_shown = False\n", True)],
    ids=["silent", "for JSON alone"],
)
def test_a_column_without_cells_is_not_in_the_table(added, source, is_in_json):
    column = added(source)
    assert "Extra" not in printed([column])
    assert ("extra" in column_values([column], 0)) is is_in_json


#: Sources of columns that fail for all models, and what is said of them.
BROKEN = {
    "raises": (f"{HEAD}        return [].nothing\n", "AttributeError: 'list' object"),
    "exits": (f"{HEAD}        raise SystemExit(3)\n", "SystemExit: 3"),
    "number": (f"{HEAD}        return 3\n", "cell() returned 3 instead of a text"),
    "not JSON": (
        f"{SOUND}    def value(self, result):\n        return float('nan')\n",
        "value() returned nan, which JSON does not have",
    ),
    "no heading": (SOUND.replace(', heading = "extra", "Extra"', " = 'extra'"), "heading"),
    "justification": (f"{SOUND}    justification = 'middle'\n", "justification 'middle'"),
    "no class": ("import nosuchmodule\n", "No module named 'nosuchmodule'"),
    "no cell": (HEAD.replace("def cell", "def cello") + "        pass\n", "does not define cell"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_column_is_named_once_and_leaves_the_table_as_it_is(added, name):
    source, reason = BROKEN[name]
    column = added(source)
    problem = text(*column_problems([column]))
    assert problem.startswith("column 'extra': ")
    assert reason in problem
    assert not problem.endswith(".")
    assert printed([column]) == printed([])
    assert column_values([column], 0).get("extra") is None


def test_a_column_that_fails_for_some_models_has_the_cells_of_the_others(added):
    column = added(f"{HEAD}        return str(result.estimate.value + 1)\n")
    unknown = [each.estimate.value is None for each in results()]
    assert [cell is None for cell in column.cells] == unknown
    problem = text(*column_problems([column]))
    assert f"({sum(unknown)} of {len(unknown)} models)" in problem
    assert "Report this to the authors of extra_module" in problem
    json.dumps(column_values([column], unknown.index(False)))


@pytest.mark.parametrize(("letters", "tables"), [(26, 1), (27, 2)])
def test_columns_without_room_begin_another_table_and_no_figure_is_cut(letters, tables):
    added = [FilledColumn(name, name, "right", True, ["1" * letters] * len(results()))
             for name in ("First", "Second")]  # fmt: skip
    own = own_columns([OwnColumn("Model", lambda _: "m" * 40, "left"),
                       OwnColumn("Value", lambda _: "2" * 10)], results())  # fmt: skip
    console = Console(file=io.StringIO(), width=80)
    console.print(*filled_tables(own, added, console.width))
    shown = console.file.getvalue()
    assert shown.count("Model") == tables
    assert shown.split().count("1" * letters) == 2 * len(results())
    assert max(map(len, shown.splitlines())) <= 80
