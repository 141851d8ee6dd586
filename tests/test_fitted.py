"""Fitted numbers: where they come from, and whether they are older than what they rest on."""

import dataclasses
import fnmatch
import importlib
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.nearness import distances
from dlbricks_prediction.transfer import believed_of_baseline, difference, rates
from dlbricks_prediction.warm import warmth_of
from dlbricks_prediction.whole_errors import discrepancy_of, spread_factor
from dlbricks_pytorch.engine import page_faults, transformers_python
from dlbricks_serving.serving.predicted import repeated
from dlbricks_survey.session_effects import session_error

from dlbricks_core import fitted
from dlbricks_core.compose.fitting import composing, inferring
from dlbricks_core.estimation.adaptive.drift import drift
from dlbricks_core.estimation.adaptive.unknown import factors_of_models
from dlbricks_core.figures.figure import in_place_errors
from dlbricks_core.figures.protocols import usual_hours
from dlbricks_core.measure.costs import usual_costs

ROOT = Path(__file__).parents[1]
CORE = ROOT / "dlbricks_core"
PLUGINS = ROOT / "plugins"
PREDICTION = PLUGINS / "prediction/src/dlbricks_prediction"
FILES = sorted([*CORE.rglob(fitted.FILE), *PLUGINS.glob(f"*/src/**/{fitted.FILE}")])
GROUPS = [(path, name) for path in FILES for name in sorted(fitted.groups(path))]

READ_BY = {
    "compose": {"composing": composing, "similar": inferring},
    "estimation/adaptive": {"drift": drift, "models": factors_of_models},
    "dlbricks_serving/serving": {"repeated": repeated},
    "dlbricks_survey": {"session": session_error},
    "dlbricks_pytorch": {"transformers": transformers_python, "page_faults": page_faults},
    "figures": {"hours": usual_hours, "in_place": in_place_errors},
    "measure": {"costs": usual_costs},
    "dlbricks_prediction": {
        "believed": believed_of_baseline,
        "difference": difference,
        "discrepancy": lambda: discrepancy_of("*"),
        "kernel": lambda: kernel_of("*"),
        "nearness": distances,
        "rates": rates,
        "spread": lambda: spread_factor(""),
        "strangers": lambda: discrepancy_of("*", stranger=True),
        "warmth": lambda: warmth_of("*"),
    },
}
"""Functions that read each group, by room."""


def room_of(path):
    """Folder of a file, from its package in a plugin or its room in the core."""
    if path.is_relative_to(CORE):
        return str(path.parent.relative_to(CORE))
    _plugin, _src, *folders = path.parent.relative_to(PLUGINS).parts
    return "/".join(folders)


def of_group(path, name):
    return f"{room_of(path)}-{name}"


each_group = pytest.mark.parametrize(
    ("path", "name"), GROUPS, ids=[of_group(*group) for group in GROUPS]
)


@pytest.fixture(scope="module")
def refit():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "predictor"))
        yield importlib.import_module("refit")


def test_there_are_groups_and_each_is_read():
    found = {}
    for path, name in GROUPS:
        found.setdefault(room_of(path), set()).add(name)
    assert found == {room: set(readers) for room, readers in READ_BY.items()}


@each_group
def test_a_group_is_read_into_a_record_of_its_own(path, name):
    assert name in READ_BY.get(room_of(path), {}), "give it a row in READ_BY above"
    record = READ_BY[room_of(path)][name]()
    assert dataclasses.is_dataclass(record)
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.anything = 1


@each_group
def test_a_group_says_where_it_comes_from(path, name):
    group = fitted.groups(path)[name]
    date.fromisoformat(group.date)
    assert re.fullmatch(r"[0-9a-f]{8}", group.commit)
    if group.fitted_by is None:
        assert len(group.note) > 20, "why can no command fit it?"
    else:
        script = re.match(r"python (benchmarks/\S+\.py)\b", group.fitted_by)
        assert script, group.fitted_by
        assert (ROOT / script[1]).is_file()


@each_group
def test_a_group_is_not_older_than_what_it_rests_on(path, name, refit):
    group = fitted.groups(path)[name]
    today = {thing: refit.DIGESTS[thing]() for thing in group.rests_on}
    assert group.rests_on == today, f"fit these numbers anew: {group.fitted_by}"


@pytest.mark.parametrize("thing", ["contributions", "kernel"])
def test_a_digest_changes_with_what_it_is_of(refit, monkeypatch, tmp_path, thing):
    before = refit.DIGESTS[thing]()
    if thing == "contributions":
        for each in refit.atlas.FOLDER.glob("*.npz"):
            (tmp_path / each.name).write_bytes(each.read_bytes())
        monkeypatch.setattr(refit.atlas, "FOLDER", tmp_path)
        assert refit.DIGESTS[thing]() == before
        last = max(tmp_path.glob("*.npz"))
        last.write_bytes(last.read_bytes() + b"0")
    else:
        values = fitted.groups(PREDICTION / fitted.FILE)["kernel"].values
        monkeypatch.setitem(values["*"], "noise", 0.5)
    assert refit.DIGESTS[thing]() != before


def test_new_numbers_replace_old_ones_and_say_what_they_rest_on(refit, monkeypatch, tmp_path):
    source = PREDICTION / fitted.FILE
    module = type(sys)("module")
    module.__file__ = str(tmp_path / "module.py")
    target = refit.file_of(module)
    target.write_bytes(source.read_bytes())
    assert refit.text(fitted.groups(target)) == source.read_text("utf-8")
    before = dict(fitted.groups(target))
    monkeypatch.setattr(refit, "_commit", lambda: "0123abcd")
    refit.write(module, "believed", {"deviation": 0.2}, "features")
    after = dict(fitted.groups(target))
    changed = after.pop("believed")
    assert after == {name: group for name, group in before.items() if name != "believed"}
    assert changed.values == {"deviation": 0.2}
    assert changed.rests_on == {"features": refit.FEATURES}
    assert (changed.commit, changed.fitted_by) == ("0123abcd", before["believed"].fitted_by)


def test_data_files_are_packaged():
    for path in FILES:
        root = next(each for each in path.parents if (each / "pyproject.toml").exists())
        data = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
        ((package, globs),) = data["package-data"].items()
        (above,) = (each for each in path.parents if each.name == package)
        place = path.relative_to(above)
        assert any(
            len(place.parts) == len(Path(glob).parts) and fnmatch.fnmatch(str(place), glob)
            for glob in globs
        ), place


@pytest.mark.process
def test_the_command_line_starts_without_reading_them():
    code = "import dlbricks_core.cli.main, sys; print('dlbricks_core.fitted' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
