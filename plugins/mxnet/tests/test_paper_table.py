"""The networks of ``paper:`` against the paper's layer tables."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest
from dlbricks_mxnet.paper import PaperModels

from dlbricks_core.passes import normalize

_spec = importlib.util.spec_from_file_location(
    "paper_table", Path(__file__).with_name("paper_table.py")
)
paper_table = importlib.util.module_from_spec(_spec)
sys.modules["paper_table"] = paper_table
_spec.loader.exec_module(paper_table)

with_tables = pytest.mark.skipif(
    not paper_table.TABLES.is_dir(),
    reason=f"the paper's tables are not here ({paper_table.TABLES.name} beside the repository)",
)
NUMBERS = [str(number) for number in range(1, 51)]


@pytest.fixture(scope="module")
def rows():
    return paper_table.read_layers()


@pytest.fixture(scope="module")
def model():
    """Networks in canonical form by number, each built once."""
    built = {}

    def build(number):
        if number not in built:
            built[number] = normalize(PaperModels().load(number))
        return built[number]

    return build


@with_tables
@pytest.mark.parametrize("number", NUMBERS)
def test_layers_are_those_of_the_table(number, rows, model):
    wanted = Counter(form for row in rows[number] for form in paper_table.table_forms(row))
    found = Counter(paper_table.model_forms(model(number)))
    differences = [f"missing {count} x {each}" for each, count in (wanted - found).items()]
    differences += [f"extra   {count} x {each}" for each, count in (found - wanted).items()]
    assert not differences, "\n".join(["", *differences])
