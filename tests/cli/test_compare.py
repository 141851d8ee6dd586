"""``dlbricks compare`` on real backends."""

import sqlite3
from importlib import metadata
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--threads", "1", "--runs", "3", "--store", "results.sqlite", "--json", "out.json")
TWO = ("compare", "--backends", "onnxruntime,twin", *QUICK, "-G", "1")


def installed(distribution):
    try:
        return bool(metadata.distribution(distribution))
    except metadata.PackageNotFoundError:
        return False


#: Two frameworks whose graphs differ.
DIFFERENT = ["onnxruntime", "mxnet" if installed("dlbricks-mxnet") else "pytorch"]
ALL = ["onnxruntime", "third", "twin"]
THIRD = """
from dlbricks_onnxruntime.backend import OnnxruntimeBackend


class Third(OnnxruntimeBackend):
    name = "third"
"""


def net(brick, backend):
    return brick["backends"][backend]["net"]


def test_json_of_a_comparison_keeps_to_the_contract(dlbricks, shared, read, twin, install):
    install("third_backend", THIRD, "[dlbricks.backends]\nthird = third_backend:Third\n")
    a = shared("a", "Relu", "Relu", "Sigmoid", size=128)
    b = shared("b_with_quite_a_long_name", "Relu", "Tanh", size=128)
    command = "compare", "--backends", ",".join(ALL), *QUICK
    done = dlbricks(*command, a, b, "-G", "1", "--html", "out.html")
    assert done.status == 0
    assert done.err == "2 of 2 models reused from an earlier import.\n"
    assert max(map(len, done.out.splitlines())) <= 80
    assert "Ideal" in done.out
    assert "<svg" in Path("out.html").read_text()
    data = read("out.json")
    assert data["schema_version"] == 2
    assert [each["name"] for each in data["backends"]] == ALL
    assert {each["measured_networks"] for each in data["backends"]} == {6}
    assert data["settings"]["composer"] == "sequential"
    assert [m["name"] for m in data["models"]] == ["a", "b_with_quite_a_long_name"]
    assert [(x["layers"], x["occurrences"]) for x in data["bricks"]] == [
        (["MatMul"], 5), (["Relu"], 3), (["Sigmoid"], 1), (["Tanh"], 1),
    ]  # fmt: skip
    for brick in data["bricks"]:
        assert list(brick["backends"]) == ALL
        for entry in brick["backends"].values():
            assert len(entry["samples"]) == 3
            low, high = entry["net_interval"]
            assert 0 <= low <= entry["net"] <= high
        assert net(brick, brick["fastest"]) == min(net(brick, name) for name in ALL)
        assert brick["winner"] in (None, brick["fastest"])
        value = brick["margin"]["value"]
        if value is not None:
            second = sorted(net(brick, name) for name in ALL)[1]
            assert value * net(brick, brick["fastest"]) == pytest.approx(second)
            low, high = brick["margin"]["interval"]
            # The second may be clearly slower, and a third that scatters more may not.
            assert low > 1 or not brick["clear"]
    # Where each layer is a brick, a part is a brick.
    assert {(x["signature"], x["occurrences"]) for x in data["parts"]} == {
        (x["signature"], x["occurrences"]) for x in data["bricks"]
    }
    for model in data["models"]:
        measured = {n: model["backends"][n]["measured"] for n in ALL}
        assert model["fastest"] == min(measured, key=measured.get)
        assert sum(model["ideal_picks"].values()) == model["bricks"]
        for entry in model["backends"].values():
            assert (entry["bricks"], entry["unique_bricks"]) == (
                model["bricks"], model["unique_bricks"],
            )  # fmt: skip
        assert not model["ideal_partial"]
        estimates = [model["backends"][n]["estimate"] for n in ALL]
        assert model["ideal"] <= min(estimates) * (1 + 1e-9)
        low, high = model["ideal_interval"]
        assert low <= model["ideal"] <= high
    for total in data["operators"]:
        (brick,) = (x for x in data["bricks"] if x["layers"] == total["layers"])
        for name in ALL:
            expected = brick["occurrences"] * net(brick, name)
            assert total["totals"][name] == pytest.approx(expected)
            assert total["missing"][name] == 0
    assert data["failures"] == []


def test_parts_of_a_network_are_what_all_backends_cut_at_the_same_places(
    dlbricks, convolutions, read
):
    command = "compare", "--backends", ",".join(DIFFERENT), *QUICK, "--condition", "cold"
    done = dlbricks(*command, convolutions, "--html", "out.html")
    assert done.status == 0
    assert "sum of 3 parts" in done.out
    data = read("out.json")
    assert data["settings"]["composer"] == "segmented"
    (model,) = data["models"]
    assert {model["backends"][name]["bricks"] for name in DIFFERENT} == {3}
    assert len(model["parts"]) == 3
    assert model["parts"] == data["parts"]
    layers = [layer for part in model["parts"] for layer in part["layers"]]
    assert len(layers) == model["layers"]
    # Layers are those of the model, not of what a backend makes of it.
    assert set(layers) == {"Conv", "Relu", "MaxPool", "Concat", "GlobalAveragePool", "Softmax"}
    assert not any("reach across" in note["text"] for note in data["notes"])
    bricks = {brick["signature"]: brick["backends"] for brick in data["bricks"]}
    differences = [part["difference"] for part in model["parts"]]
    assert differences == sorted(differences, reverse=True)
    for part in model["parts"]:
        for name, entry in part["backends"].items():
            (signature,) = entry["bricks"]
            assert entry["net"] == pytest.approx(bricks[signature][name]["net"])
    for name, entry in model["backends"].items():
        sums = sum(part["backends"][name]["net"] for part in model["parts"])
        assert entry["composed"] == pytest.approx(sums)
        assert sums <= entry["estimate"] <= sums + 0.2
        low, high = entry["composed_interval"]
        assert low <= sums <= high
        over = data["models"][0]["backends"][model["fastest"]]["composed"]
        if name != model["fastest"]:
            assert entry["composed_ratio"]["value"] == pytest.approx(sums / over)


def test_whole_models_run_as_their_users_run_them_and_profiles_show_the_parts(
    dlbricks, convolutions, read
):
    command = "compare", "--backends", ",".join(DIFFERENT), *QUICK
    done = dlbricks(*command, convolutions)
    assert done.status == 0, done.err
    assert "by the framework's profiler" in " ".join(done.out.split())
    data = read("out.json")
    assert data["settings"]["protocol"] == "hot"
    (model,) = data["models"]
    for name in DIFFERENT:
        entry = model["backends"][name]
        assert len(entry["measured_samples"]) == 3
        assert entry["composed"] == pytest.approx(entry["measured"], rel=0.01)
    assert {"different-sessions", "load-unknown"}.isdisjoint(note["code"] for note in data["notes"])


def test_load_by_others_forbids_a_winner(dlbricks, shared, read, twin, monkeypatch):
    # Parts that are too short to be told from a call have no margin.
    a = shared("a", *["Relu", "Sigmoid"] * 4, size=256)
    alike = "--backend-option", "onnxruntime.optimizations=off"
    monkeypatch.setattr("dlbricks_core.machine.load.MachineLoad.share", 1.0)
    cold = (*TWO[:-2], "--condition", "cold")
    done = dlbricks(*cold, a, *alike)
    (model,) = read("out.json")["models"]
    assert model["winner"] is None
    assert "not measured: other programs used 100% of the CPUs" in " ".join(done.out.split())
    monkeypatch.setattr("dlbricks_core.machine.load.MachineLoad.share", 0.5)
    dlbricks(*cold, a, *alike, "--force")
    data = read("out.json")
    assert {each["slowdown"] for each in (*data["models"], *data["parts"])} == {2.0}
    for each in (*data["models"], *data["parts"]):
        assert each["clear"] == (each["margin"]["interval"][0] > 2)


def test_an_unknown_load_is_stated_and_not_taken_for_none(dlbricks, shared, read, twin):
    a = shared("a", "Relu")
    off = (*TWO, a, "--backend-option", "onnxruntime.optimizations=off")
    lines = dlbricks(*off).out.splitlines()
    # The first screen holds the winner and the models.
    assert lines[0].startswith("a on onnxruntime and twin, 1 thread:")
    assert any(word in " ".join(lines[:3]) for word in ("fastest", "no difference"))
    assert any(line.startswith(" a ") for line in lines[:24])
    assert not [note for note in read("out.json")["notes"] if "is unknown" in note["text"]]
    with sqlite3.connect("results.sqlite") as store:
        store.execute("UPDATE sessions SET load = NULL")
    assert dlbricks(*off).status == 0
    (note,) = [note for note in read("out.json")["notes"] if "is unknown" in note["text"]]
    assert "is unknown for 1 of 1 sessions" in note["text"]
    # Options belong to a backend.
    settings = {each["name"]: each["settings"] for each in read("out.json")["backends"]}
    assert settings["onnxruntime"] == {"optimizations": "off"}
    assert settings["twin"] == {"optimizations": "all"}


def test_backends_take_turns_model_by_model_in_every_round(dlbricks, shared, twin):
    a, b = shared("a", "Relu", "Sigmoid"), shared("b", "Tanh", "Abs", size=24)
    assert dlbricks(*TWO, a, b).status in (0, 3)  # 3: other programs made it doubtful
    with ResultStore.open("results.sqlite") as store:
        taken = [
            (
                sample.round,
                sample.taken_at,
                found.question.setup.backend,
                found.question.subject.kind,
            )
            for found in store.measurements()
            for sample in found.observations
        ]
        sessions = {s.session for found in store.measurements() for s in found.observations}
    assert len(sessions) == 1
    for number in {each[0] for each in taken}:
        order = [(backend, kind) for r, _, backend, kind in sorted(taken) if r == number]
        # Each model and its three bricks on one backend, then on the other; every other round
        # runs the other way.
        there = [
            (b, k) for b in ("onnxruntime", "twin") for k in ("model", "brick", "brick", "brick")
        ] * 2
        assert order == (there if number % 2 == 0 else there[::-1])


def test_stored_samples_are_reused_and_noted(dlbricks, shared, read, twin):
    a = shared("a", "Relu", "Sigmoid")
    how = "--end-to-end", "--backend", "onnxruntime", "--composer", "sequential"
    dlbricks("estimate", "--measure", *how, *QUICK, a)
    before = {x["signature"]: x["samples"] for x in read("out.json")["bricks"]}
    again = *TWO, a
    done = dlbricks(*again)
    assert done.status == 0
    assert "4 of onnxruntime" in done.out
    assert "different sessions" in " ".join(done.out.split())
    data = read("out.json")
    assert [each["reused_networks"] for each in data["backends"]] == [4, 0]
    assert sum("different sessions" in note["text"] for note in data["notes"]) == 1
    assert any("models' own layers" in note["text"] for note in data["notes"])
    for brick in data["bricks"]:
        assert brick["backends"]["onnxruntime"]["samples"] == before[brick["signature"]]
    dlbricks(*again)
    assert [each["measured_networks"] for each in read("out.json")["backends"]] == [0, 0]
    assert read("out.json")["bricks"] == data["bricks"]
    forced = dlbricks(*again, "--force")
    assert "different sessions" not in " ".join(forced.out.split())
    assert not any("different sessions" in note["text"] for note in read("out.json")["notes"])


def test_a_brick_that_fails_on_one_backend_is_named_and_the_rest_goes_on(dlbricks, tmp_path, read):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Trilu", ["a"], ["b"], domain="com.microsoft"),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 8)) for n in "xby"]
    graph = helper.make_graph(nodes, "g", values[:1], values[2:], value_info=values[1:2])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    command = "compare", "--backends", "onnxruntime,pytorch", *QUICK
    done = dlbricks(*command, "m.onnx", "-G", "1", "--html", "out.html")
    assert done.status == 3
    assert "m on pytorch" in done.out
    data = read("out.json")
    (model,) = data["models"]
    assert model["backends"]["onnxruntime"]["measured"] > 0
    assert not model["backends"]["onnxruntime"]["partial"]
    assert model["backends"]["pytorch"]["partial"]
    assert model["backends"]["pytorch"]["unsupported"][0]["layers"] == ["com.microsoft.Trilu"]
    assert (model["fastest"], model["winner"]) == ("onnxruntime", None)
    assert not model["ideal_partial"]
    relu, gelu, _sigmoid = data["bricks"]
    assert relu["backends"]["pytorch"]["value"] > 0
    assert gelu["backends"]["pytorch"]["failure"]
    assert gelu["backends"]["onnxruntime"]["value"] > 0
    assert {f["backend"] for f in data["failures"]} == {"pytorch"}
    (total,) = (t for t in data["operators"] if t["layers"] == ["com.microsoft.Trilu"])
    assert total["missing"] == {"onnxruntime": 0, "pytorch": 1}
    assert total["totals"]["pytorch"] is None
    assert "com.microsoft.Trilu" in (tmp_path / "out.html").read_text()


def test_options_of_no_backend_are_refused(dlbricks, shared, twin):
    refused = dlbricks(*TWO, shared("a", "Relu"), "--backend-option", "optimizations=off")
    assert refused.status == 2
    assert "BACKEND.KEY=VALUE" in refused.err


@pytest.mark.parametrize(
    ("backends", "word"),
    [
        ("onnxruntime", "two or more"),
        ("onnxruntime,onnxruntime", "two or more"),
        ("onnxruntime,caffe", "unknown backend 'caffe'"),
    ],
)
def test_backends_that_cannot_be_compared_are_refused(dlbricks, shared, backends, word):
    done = dlbricks("compare", "--backends", backends, *QUICK, shared("a", "Relu"))
    assert done.status == 2
    assert word in done.err


def test_places_that_some_backends_do_not_cut_at_are_named(
    dlbricks, shared, read, twin, monkeypatch
):
    monkeypatch.setattr("dlbricks_compare.common.original", lambda model, name: None)
    done = dlbricks(*TWO, shared("a", "Relu", "Sigmoid"))
    assert done.status == 0
    data = read("out.json")
    (part,) = data["parts"]
    assert len(part["layers"]) == data["models"][0]["layers"]
    assert "only the whole model is compared" in " ".join(done.out.split())
    assert sum("reach across" in note["text"] for note in data["notes"]) == 2
