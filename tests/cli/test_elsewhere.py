"""Commands and collections of distributions that may be missing."""

import re
import shutil
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from dlbricks_core.commands import command
from dlbricks_core.errors import UnknownPluginError
from dlbricks_core.measure.metric import DISTRIBUTED
from dlbricks_core.plugins import names
from dlbricks_core.predict.defaults import DISTRIBUTION, FOLDER, PREDICTOR

#: The module; its package has a function of that name.
PROGRAM = import_module("dlbricks_core.cli.main")

OTHERS = {
    "advise": "serving", "check": "accuracy", "check.layers": "explain", "check.trace": "explain",
    "compare": "compare", "fleet": "fleet", "machine": "machine", "machine.calibrate": "survey",
    "machine.survey": "survey", "private": "private", "results": "records",
    "results.pages": "pages",
    "serve": "serving", "show.graph": "graph", "show.repeats": "study", "study": "study",
    "suite": "suite",
}  # fmt: skip
"""Distributions of commands, and of actions of commands."""

PLUGINS = Path(__file__).parents[2] / "plugins"


def needed(name):
    """A distribution, after those of DLBricks that it needs."""
    project = tomllib.loads((PLUGINS / name / "pyproject.toml").read_text())["project"]
    own = [re.split(r"[^a-z-]", each)[0] for each in project["dependencies"]]
    direct = sorted(each.removeprefix("dlbricks-") for each in own if each.startswith("dlbricks-"))
    return list(dict.fromkeys([*(each for one in direct for each in needed(one)), name]))


def install(name):
    """Command that installs a distribution, after those of DLBricks that it needs."""
    folders = " ".join(f"-e plugins/{each}" for each in needed(name))
    return f"pip install -c constraints.txt {folders} (in a clone of DLBricks)"


@pytest.fixture
def installed(monkeypatch):
    """Sets which commands of other distributions are installed."""
    own = names("command") - OTHERS.keys()

    def set_installed(*others):
        for module in (PROGRAM, command):
            monkeypatch.setattr(module, "names", lambda _kind: own | {*others})

    return set_installed


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_missing_command_names_its_distribution(dlbricks, installed, tmp_path, name):
    installed(*OTHERS.keys() & {name.rpartition(".")[0]})  # the command of a missing action
    words = name.split(".")
    (tmp_path / words[-1]).mkdir()  # a folder of that name is not a model
    done = dlbricks(*words, "run")
    assert done.status == 2
    spoken = " ".join(words)
    assert done.err.splitlines() == [
        f"Error: 'dlbricks {spoken}' comes with dlbricks-{OTHERS[name]}, which is not installed",
        f"Hint: {install(OTHERS[name])}",
    ]


def test_distributions_of_dlbricks_have_the_commands_that_the_core_names():
    assert entries("dlbricks.commands") == OTHERS
    named = {name: each.removeprefix("dlbricks-") for name, each in command.DISTRIBUTIONS.items()}
    assert named == OTHERS, "in commands/command.py"


def entries(group):
    """Distribution of each entry point of a group."""
    return {
        name: project["name"].removeprefix("dlbricks-")
        for path in PLUGINS.glob("*/pyproject.toml")
        for project in [tomllib.loads(path.read_text())["project"]]
        for name in project.get("entry-points", {}).get(group, {})
    }


@pytest.mark.process  # its framework is imported while it is read
def test_a_model_may_have_the_name_of_a_missing_command(dlbricks, installed, tmp_path):
    installed()
    (tmp_path / "fleet").write_text("no model")
    done = dlbricks("fleet", "--backend", "onnxruntime")
    assert done.status == 2
    assert "comes with" not in done.err


COLLECTIONS = {"llm": "decoders", "mxnet": "mxnet", "paper": "mxnet", "torch": "pytorch"}


@pytest.mark.parametrize("name", sorted(COLLECTIONS))
def test_a_missing_collection_names_its_distribution(dlbricks, monkeypatch, name):
    monkeypatch.setattr("dlbricks_core.importers.lookup.find", missing)
    done = dlbricks("estimate", f"{name}:some", "--backend", "onnxruntime")
    assert done.status == 2
    assert done.err.splitlines() == [
        f"Error: models of {name} come with dlbricks-{COLLECTIONS[name]}, which is not installed",
        f"Hint: {install(COLLECTIONS[name])}",
    ]


def missing(kind, name, _interface):
    raise UnknownPluginError(f"no {kind} {name}")


def test_collections_of_dlbricks_are_in_the_distributions_that_the_core_names():
    assert entries("dlbricks.models") == COLLECTIONS


@pytest.mark.parametrize("name", sorted(DISTRIBUTED))
def test_a_missing_quantity_names_its_distribution(dlbricks, monkeypatch, name):
    monkeypatch.setattr("dlbricks_core.measure.metric.find", missing)
    done = dlbricks("estimate", "onnx:squeezenet", "--backend", "onnxruntime", "--quantity", name)
    assert done.status == 2
    assert done.err.splitlines() == [
        f"Error: the quantity {name} comes with dlbricks-quantities, which is not installed",
        f"Hint: {install('quantities')}",
    ]


def test_quantities_of_dlbricks_are_in_the_distribution_that_the_core_names():
    assert entries("dlbricks.metrics") == dict.fromkeys(DISTRIBUTED, "quantities"), (
        "in measure/metric.py"
    )


@pytest.mark.process  # its model is imported
def test_missing_predictions_name_their_distribution(dlbricks, monkeypatch, tmp_path):
    monkeypatch.setattr("dlbricks_core.predict.installed.names", lambda _kind: set())
    done = dlbricks("estimate", "onnx:light_squeezenet", "--backend", "onnxruntime",
                    "--store", tmp_path / "none.db", "-q")  # fmt: skip
    assert done.status == 2
    assert done.err.splitlines() == [
        "Error: predictions come with dlbricks-prediction, which is not installed",
        f"Hint: {install('prediction')}. Or choose --predictor none.",
    ]


def test_the_predictor_of_dlbricks_is_in_the_distribution_that_the_core_names():
    assert entries("dlbricks.predictors") == {PREDICTOR: "prediction"}
    assert (DISTRIBUTION, FOLDER) == ("dlbricks-prediction", "plugins/prediction")


@pytest.mark.parametrize(
    "given",
    [("--prompt", "8"), ("--generate", "8"), ("--task", "chat"), ("--pictures", "1"),
     ("--sweep", "batch=1,2")],
    ids=lambda given: given[0],
)  # fmt: skip
def test_missing_sizes_name_their_distribution(dlbricks, monkeypatch, given):
    monkeypatch.setattr("dlbricks_core.commands.options.several_sizes.names", lambda _kind: set())
    done = dlbricks("estimate", "onnx:squeezenet", "--backend", "onnxruntime", *given)
    assert done.status == 2
    assert done.err.splitlines() == [
        f"Error: {given[0]} comes with dlbricks-sizes, which is not installed",
        f"Hint: {install('sizes')}",
    ]


def test_missing_databases_name_their_distribution(dlbricks, monkeypatch):
    monkeypatch.setattr("dlbricks_core.store.opened.names", lambda _kind: set())
    done = dlbricks("estimate", "onnx:squeezenet", "--backend", "onnxruntime",
                    "--store", "postgresql://me:s3cret@host/results")  # fmt: skip
    assert done.status == 2
    assert done.err.splitlines() == [
        "Error: stores at postgresql://... come with dlbricks-postgresql, which is not installed",
        f"Hint: {install('postgresql')}",
    ]


def damage(path):
    """Overwrites a page in the middle of a file."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 2048] = b"\xa5" * 2048
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(lambda path: None, "a store of an earlier version is upgraded"),
     (damage, "a damaged file is read in part")],
)  # fmt: skip
def test_missing_upkeep_of_stores_names_its_distribution(
    dlbricks, monkeypatch, tmp_path, spoil, words
):
    earlier = Path(__file__).parents[1] / "store" / "data" / "version-0003.db"
    store = tmp_path / "old.db"
    shutil.copy(earlier, store)
    spoil(store)
    before = store.read_bytes()
    monkeypatch.setattr("dlbricks_core.store.upkeep.names", lambda _kind: set())
    done = dlbricks("estimate", "onnx:squeezenet", "--backend", "onnxruntime", "--store", store)
    assert done.status == 2
    assert done.err.splitlines() == [
        f"Error: {store}: {words} by dlbricks-records, which is not installed",
        f"Hint: {install('records')}",
    ]
    assert store.read_bytes() == before


def test_missing_results_files_name_their_distribution(dlbricks, monkeypatch):
    monkeypatch.setattr("dlbricks_core.commands.options.results_files.names", lambda _kind: set())
    done = dlbricks("estimate", "onnx:squeezenet", "--backend", "onnxruntime",
                    "--results", "none.zst")  # fmt: skip
    assert done.status == 2
    assert done.err.splitlines() == [
        "Error: --results comes with dlbricks-records, which is not installed",
        f"Hint: {install('records')}",
    ]


def test_functions_of_distributions_are_where_the_core_says():
    assert entries("dlbricks.sizes") == {"sizes": "sizes"}
    assert entries("dlbricks.results") == {"exported": "records"}
    assert entries("dlbricks.upkeep") == {"upkeep": "records"}
    assert entries("dlbricks.databases") == {"postgresql": "postgresql"}
    for name, distribution in command.FUNCTIONS.items():
        assert name in import_module(distribution.replace("-", "_")).__all__


@pytest.mark.parametrize("old", PROGRAM.RENAMED)
def test_a_former_name_answers_with_the_new_one(dlbricks, old):
    done = dlbricks(old, "--help")
    assert (done.status, done.err) == (0, f"Note: 'dlbricks {old}' is 'dlbricks "
                                          f"{' '.join(PROGRAM.RENAMED[old])}' now.\n")  # fmt: skip
