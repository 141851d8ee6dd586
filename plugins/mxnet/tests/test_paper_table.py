"""The networks of ``paper:`` against the paper's layer tables."""

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dlbricks_mxnet.native import original
from dlbricks_mxnet.paper import PaperModels
from dlbricks_mxnet.paper.catalogue import ENTRIES
from dlbricks_mxnet.timer import MxnetTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.cli import main
from dlbricks_core.importers import ImportOptions
from dlbricks_core.ir import Network
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

_spec = importlib.util.spec_from_file_location(
    "paper_table", Path(__file__).with_name("paper_table.py")
)
paper_table = importlib.util.module_from_spec(_spec)
sys.modules["paper_table"] = paper_table
_spec.loader.exec_module(paper_table)

with_tables = pytest.mark.skipif(
    not paper_table.TABLES.is_dir(),
    reason="the paper's tables, shared/table1 beside the repository, are not here",
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


@with_tables
def test_the_catalogue_says_what_the_table_says():
    models = paper_table.read_models()
    assert list(PaperModels().names()) == list(models)
    for number, row in models.items():
        notes = PaperModels().describe(number)
        assert (notes.title, notes.task, notes.layers) == (
            row["name"],
            row["task"],
            int(row["layers"]),
        )


def test_layers_and_unique_layers_of_all_models(model):
    """The paper counts 10,815 layers, 1,529 of them unique (14%)."""
    bricks = BrickSet.of(model(number) for number in NUMBERS)
    layers = sum(len(cut.model.layers) for cut in bricks.models)
    assert layers == pytest.approx(10_815, rel=0.02)
    assert len(bricks.bricks) / layers == pytest.approx(0.14, abs=0.005)


def test_names_are_unique_and_sort_as_in_the_table():
    labels = [entry.label for entry in ENTRIES.values()]
    assert len(set(labels)) == len(labels)
    assert labels == sorted(labels)


def test_a_network_is_named_and_says_where_it_came_from(model):
    vgg = model("17")
    assert (vgg.name, vgg.source) == ("17_vgg16", "paper:17")
    assert vgg.tensors["data"].sizes == (1, 3, 224, 224)


def test_the_list_says_what_the_paper_says(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        main(["list", "paper:"])
    lines = capfd.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (vgg,) = [line for line in lines if line.startswith(" paper:17 ")]
    assert vgg.split()[-3:] == ["IC", "3x224x224", "40"]
    with pytest.raises(SystemExit, match="0"):
        main(["list", "paper:", "--json", "-"])
    models = json.loads(capfd.readouterr().out)["models"]
    assert [model["name"] for model in models] == [f"paper:{number}" for number in NUMBERS]
    assert models[21]["inputs"] == {"data0": [3, 512, 512], "data1": [3, 512, 512]}


def test_the_batch_may_be_another(model):
    large = normalize(PaperModels().load("16", ImportOptions(batch=2)))
    assert large.tensors["data"].sizes == (2, 3, 227, 227)
    assert len(large.layers) == len(model("16").layers)


def test_mxnet_itself_computes_the_same():
    """The block, not exported, against what the IR brought back to MXNet."""
    network = materialize(normalize(PaperModels().load("16")))
    timer = MxnetTimer(BackendSettings())
    (ours,), (wanted,) = (_run(timer, load(network)) for load in (timer.load, timer.load_native))
    np.testing.assert_allclose(ours, wanted, rtol=1e-3)


@pytest.mark.parametrize("number", ["4", "22", "39", "47"])
def test_mxnet_itself_has_the_same_weights(number, model):
    """By name: the blocks are built twice, and MXNet counts names up."""
    ours = {name for name in model(number).weights if name not in model(number).constants}
    network = Network(model(number), {}, _images(number))
    _, values = original(network)
    assert ours <= {*values, *model(number).constants}


def _images(number):
    shapes = ENTRIES[number].inputs
    return {name: np.zeros((1, *shape), np.float32) for name, shape in shapes.items()}


def _run(timer, loaded):
    timer.run(loaded)
    return list(timer.outputs(loaded).values())
