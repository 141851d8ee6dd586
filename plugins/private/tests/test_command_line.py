"""Private suites as their owner, the one who times them, and an attacker see them."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from dlbricks_records.contents import export_measurements, merge, read_records
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.facts import Measurement
from dlbricks_core.store import ResultStore

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

SECRET = "tell_nobody"
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
BENCH = ("--backend", "onnxruntime", "--threads", "1", "--runs", "2")


def network(path, widths, size, activation, side=72):
    """Convolutions with activations; each is a short segment of its own."""
    nodes, weights, x = [], [], f"{SECRET}_input"
    for i, (read, written) in enumerate(itertools.pairwise(widths)):
        weight = np.ones((written, read, size, size), np.float32)
        weights.append(numpy_helper.from_array(weight, f"{SECRET}_w{i}"))
        nodes.append(helper.make_node("Conv", [x, f"{SECRET}_w{i}"], [f"{SECRET}_c{i}"],
                                      name=f"{SECRET}_conv{i}", pads=[size // 2] * 4,
                                      doc_string=SECRET))  # fmt: skip
        nodes.append(helper.make_node(activation, [f"{SECRET}_c{i}"], [f"{SECRET}_x{i}"]))
        x = f"{SECRET}_x{i}"
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width, side, side])
        for name, width in ((f"{SECRET}_input", widths[0]), (x, widths[-1]))
    ]
    graph = helper.make_graph(nodes, SECRET, ends[:1], ends[1:], weights, doc_string=SECRET)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name=SECRET)  # fmt: skip
    onnx.save(model, path)


@pytest.fixture(scope="module")
def owned(tmp_path_factory, in_folder):
    """A folder with a secret network, a published one, and suites with and without decoys."""
    folder = tmp_path_factory.mktemp("owned")
    network(folder / f"{SECRET}.onnx", (32, 32, 32, 48, 48), 3, "Relu")
    network(folder / "published.onnx", (24, 40, 40, 56), 1, "Sigmoid")
    for name, decoys in ("suite", 3), ("bare", 0):
        how = private(folder / f"{SECRET}.onnx", name, decoys)
        assert in_folder(folder, *how, "--json", f"{name}.json").status == 0
    return folder


@pytest.fixture
def suites(owned, tmp_path):
    """Copies of those suites and of their keys, in the current folder."""
    for each in owned.glob("suite*"), owned.glob("bare*"):
        for path in each:
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, tmp_path / path.name)


@pytest.fixture
def secret(owned):
    return owned / f"{SECRET}.onnx"


def private(model, folder, decoys):
    published = model.parent / "published.onnx"
    source = ("--decoys-from", published) if decoys else ()
    return ("private", "generate", model, "--decoys", decoys, *source, "-o", folder)


def generate(dlbricks, secret, folder, decoys, *more):
    return dlbricks(*private(secret, folder, decoys), *more)


def estimate(dlbricks, key, results):
    done = dlbricks("private", "estimate", "--key", key, "--results", results,
                    "--backend", "onnxruntime", "--json", "estimate.json")  # fmt: skip
    assert done.status == 0, done.err
    return json.loads(Path("estimate.json").read_text())["models"][0]


def attack(dlbricks, suite, published):
    done = dlbricks("private", "attack", suite, "--key", f"{suite}.key.json", "--published",
                    published, "--json", "attack.json")  # fmt: skip
    assert done.status == 0, done.err
    return done


def test_an_estimate_is_the_same_to_the_last_bit_without_the_decoys(dlbricks, secret, tmp_path):
    done = generate(dlbricks, secret, "suite", 3, "--backend", "onnxruntime")
    assert done.status == 0, done.err
    done = dlbricks("suite", "time", "suite", *BENCH, "--results", "all.zst")
    assert done.status == 0, done.err
    key = json.loads((tmp_path / "suite.key.json").read_text())
    true = set(key["models"][0]["bricks"])
    timed, kept = true_alone(tmp_path / "all.zst", true, tmp_path / "true.zst")
    assert timed >= 2 * kept
    assert kept == len(true)
    with_decoys, without = (
        estimate(dlbricks, "suite.key.json", results) for results in ("all.zst", "true.zst")
    )
    assert with_decoys["estimate"] == without["estimate"]
    assert with_decoys["interval"] == without["interval"]
    assert with_decoys["name"] == SECRET
    assert not with_decoys["partial"]


def true_alone(path, true, target):
    """Writes results without those of decoys; how many networks both files hold."""
    records = list(read_records(path))
    measurements = [each for each in records if isinstance(each, Measurement)]
    kept = [each for each in measurements if each.question.subject.signature in true]
    with ResultStore.open(target.with_suffix(".db")) as some:
        merge(some, [each for each in records if not isinstance(each, Measurement)] + kept)
        export_measurements(some, target)
    return len(measurements), len(kept)


def schema_of(name):
    return json.loads((REFERENCE / name).read_text("utf-8"))


def test_what_is_written_is_what_the_schemas_say(dlbricks, suites, secret, tmp_path, closed):
    schema = closed(schema_of("dlbricks.schema.json"))
    done = dlbricks("suite", "time", "bare", *BENCH, "--results", "bare.zst")
    assert done.status == 0, done.err
    estimate(dlbricks, "bare.key.json", "bare.zst")
    attack(dlbricks, "bare", secret.parent / "published.onnx")
    written = {"suite": "generate", "estimate": "estimate", "attack": "attack"}
    for name, action in written.items():
        data = json.loads((tmp_path / f"{name}.json").read_text())
        jsonschema.validate(data, {**schema, "$ref": f"#/$defs/private_{action}"})
    manifest = json.loads((tmp_path / "suite" / "manifest.json").read_text())
    jsonschema.validate(manifest, schema_of("manifest.schema.json"))


def test_a_suite_holds_no_name_and_no_count(suites, tmp_path):
    files = [each for each in (tmp_path / "suite").rglob("*") if each.is_file()]
    assert all(SECRET.encode() not in each.read_bytes() for each in files)
    manifest = json.loads((tmp_path / "suite" / "manifest.json").read_text())
    assert manifest["models"] == []
    signatures = [each["signature"] for each in manifest["bricks"]]
    assert signatures == sorted(set(signatures))
    assert all("used" not in each for each in manifest["bricks"])


def test_the_owner_is_told_how_many_decoys_there_are_and_not_which(suites, tmp_path):
    written = json.loads((tmp_path / "suite.json").read_text())
    true = set(json.loads((tmp_path / "suite.key.json").read_text())["models"][0]["bricks"])
    decoys = {each["signature"] for each in written["bricks"]} - true
    assert written["private"] == {
        "true": len(true), "decoys": len(decoys), "without_decoys": 0, "whole_models": 0,
    }  # fmt: skip
    assert {tuple(each) for each in written["bricks"]} == {("signature", "layers")}
    assert SECRET not in json.dumps(written)


def test_the_owner_is_warned_of_what_decoys_do_not_hide(dlbricks, secret, tmp_path):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 7]) for name in "abc"]
    nodes = [helper.make_node("Mul", ["a", "b"], ["x"]), helper.make_node("Sub", ["x", "b"], ["c"])]
    graph = helper.make_graph(nodes, "tiny", ends[:2], ends[2:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "tiny net.onnx")
    done = generate(dlbricks, secret, "suite", 2, "tiny net.onnx", "--json", "written.json")
    said = " ".join(done.out.split())
    assert "Warning: models that are one brick each stand whole in the suite" in said
    assert "Warning: no decoy fits 1 of" in said
    written = json.loads((tmp_path / "written.json").read_text())["private"]
    assert (written["without_decoys"], written["whole_models"]) == (1, 1)


def test_two_suites_of_one_model_share_its_bricks_alone(dlbricks, suites, secret, tmp_path):
    assert generate(dlbricks, secret, "second", 3).status == 0
    held = [
        {each.stem for each in (tmp_path / name / "bricks").iterdir()}
        for name in ("suite", "second")
    ]
    key = json.loads((tmp_path / "suite.key.json").read_text())
    assert set(key["models"][0]["bricks"]) <= held[0] & held[1]
    assert held[0] != held[1]


def test_the_owner_is_told_what_an_attacker_learns(dlbricks, suites, owned):
    done = attack(dlbricks, "suite", owned / "published.onnx")
    assert max(map(len, done.out.splitlines())) <= 80
    told = json.loads(Path("attack.json").read_text())
    (model,) = told["exposed"]
    assert model["log10_candidates"] >= model["log10_choices"] >= 4 * np.log10(4) - 1e-9
    assert model["log10_candidates_left"] <= model["log10_candidates"]


def test_a_model_without_decoys_is_the_only_candidate(dlbricks, suites, owned):
    attack(dlbricks, "bare", owned / "published.onnx")
    told = json.loads(Path("attack.json").read_text())
    assert told["attackers"] == []
    assert len(told["standing_out"]) == told["suite"]["true"] == told["suite"]["bricks"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("generate", "-o", "s"), "Name at least one MODEL"),
        (("estimate", "--key", "k", "--backend", "onnxruntime"), "Missing option '--results'"),
        (("attack", "absent", "--key", "absent"), "cannot be read"),
        (("attack", "absent"), "Missing option '--key'"),
    ],
)
def test_wrong_usage_is_told_in_one_line(dlbricks, line, said):
    done = dlbricks("private", *line)
    assert done.status == 2
    assert said in done.err


def test_a_key_never_lies_in_its_suite(dlbricks, secret, tmp_path):
    done = generate(dlbricks, secret, "suite", 2, "--key", "suite/key.json")
    assert done.status == 2
    assert "would travel" in done.err
    assert not (tmp_path / "suite").exists()


def test_a_key_of_another_suite_is_refused(dlbricks, suites, owned):
    published = owned / "published.onnx"
    assert generate(dlbricks, published, "other", 0).status == 0
    done = dlbricks(
        "private", "attack", "suite", "--key", "other.key.json", "--published", published
    )
    assert done.status == 2
    assert "is not the key" in done.err
