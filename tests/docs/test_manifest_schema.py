"""Manifests of suites are what their schema says, and no field is missing there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dlbricks_suite.folder.manifest import checksum, read_manifest
from dlbricks_suite.writing import generate

from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers.models import ModelLoader
from dlbricks_core.progress import Observer

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "manifest.schema.json").read_text("utf-8")
)


def closed(part):
    """The schema with no field but those that it names, so that none is forgotten."""
    if isinstance(part, list):
        return [closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    found = {name: closed(value) for name, value in part.items()}
    if found.get("type") == "object" and isinstance(found.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


@pytest.fixture(scope="module")
def folder(processes, perceptron, tmp_path_factory):
    """A folder with a suite of each kind."""
    folder = tmp_path_factory.mktemp("suites")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        perceptron("a.onnx", 1, 4)
        with ModelLoader() as loader:
            models = [loader.load_one("a.onnx")]
    observer = Observer()
    generate(models, None, folder / "structures", 0, observer)
    generate(models, CutOptions.chosen(1, None, None), folder / "bricks", 0, observer)
    return folder


def wrong(fields):
    """What the schema says against a manifest."""
    errors = jsonschema.Draft202012Validator(closed(SCHEMA)).iter_errors(fields)
    return [f"{each.json_path}: {each.message[:200]}" for each in errors]


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["structures", "bricks"])
def test_manifests_are_what_their_schema_says(folder, kind):
    fields = json.loads((folder / kind / "manifest.json").read_text("utf-8"))
    assert fields["bricks"]
    assert bool(fields["models"]) == (kind == "structures")
    assert wrong(fields) == []


@pytest.mark.parametrize(("kind", "entry"), [("structures", "models"), ("bricks", "bricks")])
def test_what_the_schema_refuses_is_refused_when_it_is_read(folder, tmp_path, kind, entry):
    fields = json.loads((folder / kind / "manifest.json").read_text("utf-8"))
    for each in fields[entry]:
        each |= {"file": "../outside.onnx"}
        fields["checksum"] = checksum(fields)
        (tmp_path / "manifest.json").write_text(json.dumps(fields))
        assert wrong(fields)
        with pytest.raises(DLBricksError, match="not a valid manifest"):
            read_manifest(tmp_path)
