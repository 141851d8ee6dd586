"""``--composer tiled`` on a real framework: a large convolution that is never run."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import (
    CutOptions,
    LoadOptions,
    Observer,
    Request,
    estimate,
    load_models,
)

ONE = ("--backend", "onnxruntime", "--threads", "1", "--composer", "tiled")


@pytest.fixture
def model(tmp_path):
    """Of 10 GFLOP, nearly all of them in one layer."""
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    shape = (1, 512, 46, 46)
    weight = numpy_helper.from_array(np.ones((512, 512, 3, 3), np.float32), "w")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "large", infos[:1], infos[1:], [weight])
    imports = [helper.make_opsetid("", 17)]
    path = tmp_path / "large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def test_what_is_large_is_told_by_tiles(dlbricks, read, model):
    files = "--json", "r.json", "--html", "r.html"
    done = dlbricks("run", model, "--end-to-end", *ONE, "--runs", "5", *files)
    assert done.status == 0, done.err
    data = read("r.json")
    assert data["totals"]["unique_bricks"] == 2
    assert data["totals"]["timed_bricks"] == 3
    bricks = {tuple(b["layers"]): b for b in data["bricks"] if b["occurrences"]}
    tiles = {b["signature"]: b for b in data["bricks"] if not b["occurrences"]}
    told = bricks["Conv",]
    assert set(told["told_by"]) == tiles.keys()
    assert (told["samples_ms"], told["like"]) == ([], None)
    timed_ms = [b["latency_ms"] for b in data["bricks"] if not b["told_by"]]
    assert data["benchmarking"]["bricks_s"] == pytest.approx(sum(timed_ms) / 1e3)
    assert data["benchmarking"]["speedup"] > 2
    (found,) = data["models"]
    assert 0.7 < found["normalized"] < 1.4
    assert not found["partial"]
    page = (model.parent / "r.html").read_text(encoding="utf-8")
    assert all(signature[:8] in page for signature in told["told_by"])


def test_an_evaluation_says_so_and_precision_is_reached_with_tiles(dlbricks, read, model):
    done = dlbricks("evaluate", model, *ONE, "--precision", "5%", "--json", "e.json")
    assert done.status == 0, done.err
    assert "1 of 2 unique bricks timed, and 2 networks besides; the others follow." in done.out
    assert read("e.json")["evaluation"]["models"][0]["same_rounds"]
    again = dlbricks("estimate", model, *ONE, "--precision", "5%", "--json", "s.json")
    assert again.status == 0, again.err
    assert read("s.json")["models"][0]["estimate_ms"] == read("e.json")["models"][0]["estimate_ms"]


def test_a_tile_that_cannot_be_timed_is_the_reason_named(tmp_path, model):
    options = Request.of("onnxruntime", threads=1, runs=2)
    cut = CutOptions.chosen(None, None, "tiled")
    models = load_models([str(model)], LoadOptions(), Observer()).models
    with ResultStore.open(tmp_path / "s.sqlite") as store:
        nothing = estimate(models, cut, options, store)
        tile = next(each for each in nothing.bricks if not each.occurrences)
        assert {f.reason for f in nothing.failures} == {"not measured"}
        key = nothing.request.key(tile.brick.signature, "brick")
        store.record_failure(key, "took longer than 1 s")
        (found,) = estimate(models, cut, options, store).models
    reasons = {found.cut.operators(s): reason for s, reason in found.missing.items()}
    assert reasons == {("Conv",): "took longer than 1 s", ("Relu",): "not measured"}
