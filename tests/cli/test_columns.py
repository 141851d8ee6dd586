"""Columns of other distributions in what a command prints and writes."""

from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

SOURCE = """
from dlbricks_core.report import Column

class Letters(Column):
    '''Letters of a model's name.'''

    name, heading, justification = "letters", "Letters", "left"

    def cell(self, result):
        return "-".join(result.cut.model.name)

    def value(self, result):
        return len(result.cut.model.name)

class Broken(Letters):
    name, heading = "broken", "Broken"

    def cell(self, result):
        raise ValueError("no cell today")
"""
POINTS = """
[dlbricks.columns]
letters = letters_module:Letters
broken = letters_module:Broken
"""


@pytest.mark.long
@pytest.mark.process
def test_tables_and_json_have_the_column_and_name_a_broken_one_once(
    dlbricks, shared, read, install
):
    install("letters_module", SOURCE, POINTS)
    models = shared("chain", "Relu", "Tanh"), shared("other", "Relu")
    done = dlbricks(
        "estimate", *models, "--backend", "onnxruntime", "--threads", "1",
        "--store", "none.sqlite", "--json", "e.json", "--html", "e.html",
    )  # fmt: skip
    assert done.status == 0, done.out + done.err
    found = read("e.json")
    problem = "column 'broken': ValueError: no cell today (2 of 2 models)"
    said = " ".join(done.out.split())
    page = " ".join(Path("e.html").read_text().split()).replace("&#39;", "'")
    assert "Letters" in said
    assert "o-t-h-e-r" in said
    assert '<td class="text " data-label="Letters">o-t-h-e-r</td>' in page
    assert [each["columns"] for each in found["models"]] == [
        {"letters": 5, "broken": None},
        {"letters": 5, "broken": None},
    ]
    assert "Broken" not in said
    for text in (said, page, " ".join(each["text"] for each in found["notes"])):
        assert text.count(problem) == 1
