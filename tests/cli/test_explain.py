"""``dlbricks check layers`` on a real network and real backends, and with wrong input."""

import pytest

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--threads", "1", "--store", "results.sqlite", "--runs", "4", "--json", "e.json")
ORT = ("--backend", "onnxruntime", *QUICK)


def check_sums(found):
    groups = [g["deviation"] for g in found["groups"]]
    known = [g for g in groups if g is not None]
    assert [abs(g) for g in known] == sorted(map(abs, known), reverse=True)
    assert groups == known + [None] * (len(groups) - len(known))
    assert found["groups_deviation"] == pytest.approx(sum(known))
    assert found["deviation"] == pytest.approx(found["estimate"] - found["measured"])
    both = found["groups_deviation"] + found["rest_deviation"]
    assert both == pytest.approx(found["deviation"])
    scale = found["profile"]["scale"]
    assert scale <= 1
    in_layers, in_none = (found["profile"][name] for name in ("in_layers_ms", "in_no_layer_ms"))
    assert in_layers == pytest.approx(scale * found["profile"]["sum_ms"])
    assert in_layers + in_none == pytest.approx(found["measured"] - found["call_ms"])
    for group in found["groups"]:
        if group["profiled"] is not None:
            assert group["scaled"] == pytest.approx(scale * group["profiled"])


def test_every_group_of_the_rewritten_graph_has_a_profile(dlbricks, convolutions, read, tmp_path):
    done = dlbricks("check", "layers", convolutions, *ORT, "--top", "1", "--html", "e.html")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("convolutions on onnxruntime")
    assert any(line.lstrip().startswith("#") for line in lines[:24])
    for word in ("Composed", "measured", "Profile of onnxruntime", "in no layer", "more groups"):
        assert word in " ".join(done.out.split())
    data = read("e.json")
    found = data["explanation"]
    assert data["schema_version"] == 2
    assert data["settings"]["composer"] == "segmented"
    assert found["estimate"] == data["models"][0]["estimate"]
    assert found["measured"] == data["models"][0]["measured"]
    check_sums(found)
    assert sorted(p for g in found["groups"] for p in g["positions"]) == list(
        range(len(found["groups"]))
    )
    assert all(g["profiled"] > 0 for g in found["groups"])
    assert found["profile"]["outside_groups"] == []
    # The groups add up to the estimate and to the profile; on a busy machine, the run takes longer.
    lost = found["profile"]["in_no_layer_ms"]
    assert found["rest_deviation"] == pytest.approx(-lost, abs=1e-9)
    assert found["groups"][0]["outputs"]
    page = (tmp_path / "e.html").read_text(encoding="utf-8")
    assert "convolutions" in page
    assert page.count("<tr>") == 1 + len(found["groups"])


def test_fused_layers_are_one_group(dlbricks, convolutions, read):
    done = dlbricks("check", "layers", convolutions, *ORT, "-G", "1", "--html", "e.html")
    assert done.status == 0, done.err
    found = read("e.json")["explanation"]
    check_sums(found)
    joined = [g["layers"] for g in found["groups"] if len(g["positions"]) > 1]
    assert joined == [["Conv", "Relu"]] * 3
    assert len(found["groups"]) == 10 - 3
    assert all(g["profiled"] > 0 for g in found["groups"])
    assert {each["layer"].rpartition(".")[2] for each in found["profile"]["outside_groups"]} <= {
        "ReorderInput",
        "ReorderOutput",
    }


def test_wrong_input_is_refused_in_one_line(dlbricks, shared):
    model = shared("good", "Relu")
    assert dlbricks("check", "layers", *ORT).status == 2
    assert dlbricks("check", "layers", model, model, *ORT).status == 2
    assert dlbricks("check", "layers", model, *QUICK).status == 2
    assert dlbricks("check", "layers", model, *ORT, "--top", "0").status == 2
    for arguments, message in (
        (("absent.onnx", *ORT), "absent.onnx does not exist"),
        (("onnx:", *ORT), "names"),
        ((model, "--backend", "nosuch", *QUICK), "nosuch"),
        ((model, *ORT, "--composer", "best"), "unknown composer"),
    ):
        done = dlbricks("check", "layers", *arguments)
        assert done.status == 2, arguments
        assert message in done.err
        assert "Hint:" in done.err


def test_a_model_with_an_unknown_operator_is_explained_in_part(dlbricks, read, strange):
    done = dlbricks("check", "layers", strange, *ORT, "-G", "1", "--html", "e.html")
    assert done.status == 3
    found = read("e.json")["explanation"]
    assert found["partial"] is True
    assert (found["measured"], found["deviation"]) == (None, None)
    assert found["profile"]["missing"]
    assert any("no measurement" in " ".join(g["remarks"]) for g in found["groups"])
    assert "No profile of onnxruntime" in done.out
    assert "not measured" in done.out
