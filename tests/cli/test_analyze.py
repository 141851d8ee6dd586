"""``dlbricks show repeats``."""

import pytest

pytestmark = pytest.mark.usefixtures("kept_workers")


def test_analyze_finds_similarity_repetition_and_operations(dlbricks, shared, read, tmp_path):
    a, b = shared("a", "Relu", "Relu", "Sigmoid"), shared("b", "Relu", "Tanh")
    done = dlbricks("show", "repeats", a, b, "--json", "out.json", "--html", "out.html")
    assert done.status == 0
    assert max(map(len, done.out.splitlines())) <= 80
    data = read("out.json")
    # MatMul, Relu, Sigmoid and MatMul, Relu, Tanh
    assert data["similarity"]["names"] == ["a", "b"]
    assert data["similarity"]["matrix"][0][1] == pytest.approx(2 / 4)
    assert (data["totals"]["layers"], data["totals"]["unique_layers"]) == (10, 4)
    assert data["totals"]["operators"]["MatMul"]["repeated"] == 4
    assert data["totals"]["flops"] > data["totals"]["unique_flops"] > 0
    # 3 products of 16 x 16 and as many activations
    assert data["models"][0]["flops"] == 3 * (2 * 16 * 16 + 16)
    assert "Jaccard" in (tmp_path / "out.html").read_text()


def test_a_whole_collection_can_be_analyzed_into_json_alone(dlbricks):
    import json

    done = dlbricks("show", "repeats", "onnx:", "--json", "-")
    data = json.loads(done.out)
    assert len(data["similarity"]["matrix"]) == 9
    assert data["totals"]["layers"] == sum(model["layers"] for model in data["models"])


def test_analyze_without_a_model_is_refused(dlbricks):
    assert dlbricks("show", "repeats").status == 2
    done = dlbricks("show", "repeats", "absent.onnx")
    assert done.status == 2
    assert "absent.onnx does not exist" in done.err
