"""``dlbricks show graph``."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

pytestmark = pytest.mark.usefixtures("kept_workers")

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path):
    """The picture's texts, and its rectangles and lines by class."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    texts = [element.text for element in root.iter(f"{SVG}text") if element.text]
    parts = [*root.iter(f"{SVG}rect"), *root.iter(f"{SVG}path")]
    width, height = float(root.get("width")), float(root.get("height"))
    for rect in root.iter(f"{SVG}rect"):
        if "x" in rect.attrib:
            assert 0 <= float(rect.get("x")) <= width - float(rect.get("width"))
            assert 0 <= float(rect.get("y")) <= height - float(rect.get("height"))
    return texts, [part.get("class").split() for part in parts]


def test_a_real_network_is_drawn_with_its_critical_path(dlbricks, tmp_path, read):
    done = dlbricks("show", "graph", "onnx:resnet50", "-o", "out.svg", "--json", "out.json")
    assert done.status == 0
    assert "by floating-point operations" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    texts, classes = drawn(tmp_path / "out.svg")
    text = " ".join(texts).replace("\N{NO-BREAK SPACE}", " ")
    for word in (
        "light_resnet50",
        "5 × in a row",
        "Conv 7×7 s2",
        "1×2048×7×7",
        "gpu_0/data_0: float32[1x3x224x224]",
        "Critical path (bold) by floating-point",
    ):
        assert word in text
    assert sum(each[0] == "module" for each in classes) == 4
    shortcuts = [each for each in classes if each == ["layer"]]
    assert len(shortcuts) == 4
    # Edges: into and out of the shortcut of each stage, and past the layers of each module.
    assert sum(each == ["line"] for each in classes) == 4 * 2 + 4
    data = read("out.json")
    assert (data["drawn_layers"], len(data["layers"])) == (96, 176)
    path = data["critical_path"]
    assert len(path["layers"]) == 168
    assert path["cost"] == sum(data["layers"][i]["cost"] for i in path["layers"])


def test_costs_are_latencies_if_the_store_has_them(dlbricks, save, tmp_path, read):
    pytest.importorskip("onnxruntime")
    how = ("--backend", "onnxruntime", "--threads", "1", "--runs", "2", "--store", "s.sqlite")
    save("a", "Relu")
    save("b", "Relu", "Tanh")
    empty = dlbricks("show", "graph", "a.onnx", "-o", "out.svg", *how)
    assert empty.status == 3
    assert "The store has no latencies of single layers" in empty.out
    assert "by floating-point operations" in " ".join(drawn(tmp_path / "out.svg")[0])

    run = ("a.onnx", *how, "-G", "1", "--no-end-to-end", "--json", "run.json")
    assert dlbricks("estimate", "--measure", *run).status == 0
    done = dlbricks("show", "graph", "a.onnx", "-o", "out.svg", "--json", "out.json", *how)
    assert done.status == 0
    text = " ".join(drawn(tmp_path / "out.svg")[0])
    assert "by measured latencies" in text
    assert re.search(r"onnxruntime \S+, 1 thread, system", text)
    (model,) = read("run.json")["models"]
    calls = {b["signature"]: b["value"] for b in read("run.json")["bricks"]}
    path = read("out.json")["critical_path"]
    # The parallel estimate is the critical path plus the cost of one call.
    assert 0 <= model["parallel_estimate"] - path["cost"] < min(calls.values()) + 0.1
    assert path["missing"] == {}
    assert read("out.json")["settings"]["threads"] == 1

    here = read("run.json")["system"]["measured_on"]
    for system, status in ((here[:8], 0), ("no-such-system", 2)):
        named = dlbricks("show", "graph", "a.onnx", "-o", "out.svg", *how, "--system", system)
        assert named.status == status, named.err

    done = dlbricks("show", "graph", "b.onnx", "-o", "out.svg", *how)
    assert done.status == 3
    assert "Cost not known, missing in the path's (dashed boxes): Tanh (1)." in done.out
    _, classes = drawn(tmp_path / "out.svg")
    assert any("unknown" in each for each in classes)


def test_names_are_shown_unchanged(dlbricks, tmp_path):
    from onnx import TensorProto, helper, save_model

    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4)) for n in ("<x&", "y")]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["<x&"], ["y"])], "g", *[[v] for v in values]
    )
    imports = [helper.make_opsetid("", 17)]
    save_model(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "<b>.onnx")
    assert dlbricks("show", "graph", "<b>.onnx", "-o", "out.svg").status == 0
    texts, _ = drawn(tmp_path / "out.svg")
    assert "<b>" in texts
    assert "<x&: float32[1x4]" in texts


def test_odd_models_are_drawn(dlbricks, tmp_path):
    """An opaque subgraph, a module inside of a module, and a model without layers."""
    from onnx import TensorProto, helper, save_model

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (4,))

    def save(name, nodes, inputs, outputs):
        graph = helper.make_graph(nodes, name, inputs, outputs)
        imports = [helper.make_opsetid("", 17)]
        proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
        save_model(proto, tmp_path / f"{name}.onnx")

    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, ())
    arms = [
        helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [value(op)])
        for op in ("Relu", "Tanh")
    ]
    branch = helper.make_node("If", ["flag"], ["y"], then_branch=arms[0], else_branch=arms[1])
    save("branch", [branch], [flag, value("x")], [value("y")])
    assert dlbricks("show", "graph", "branch.onnx", "-o", "out.svg").status == 0
    texts, classes = drawn(tmp_path / "out.svg")
    assert "If" in texts

    names = iter(range(100))
    nodes, x = [], "x"
    for op in [*["Relu", "Sin"] * 3, "Tanh"] * 2:
        y = f"t{next(names)}"
        nodes.append(helper.make_node(op, [x], [y]))
        x = y
    save("nested", nodes, [value("x")], [value(x)])
    assert dlbricks("show", "graph", "nested.onnx", "-o", "out.svg").status == 0
    texts, classes = drawn(tmp_path / "out.svg")
    assert [each[0] for each in classes].count("module") == 2
    # Operations: three times 2 on 4 elements; twice that and 4 more.
    for text in ("2 × in a row", "3 × in a row", "24 FLOPs in all", "56 FLOPs in all"):
        assert text in texts

    save("nothing", [helper.make_node("Identity", ["x"], ["y"])], [value("x")], [value("y")])
    assert dlbricks("show", "graph", "nothing.onnx", "-o", "out.svg").status == 0


def test_graphs_that_cannot_be_drawn_are_refused(dlbricks, save):
    assert "names 9 models" in dlbricks("show", "graph", "onnx:", "-o", "out.svg").err
    save("a", "Relu")
    done = dlbricks("show", "graph", "a.onnx", "-o", "absent/out.svg")
    assert done.status == 2
    assert "cannot be written" in done.err
    assert dlbricks("show", "graph", "a.onnx").status == 2


def test_a_drawing_that_would_be_too_large_is_refused_before_it_is_drawn(
    dlbricks, tmp_path, monkeypatch
):
    monkeypatch.setenv("DLBRICKS_MOST_DRAWN", "20")
    monkeypatch.setattr("dlbricks_graph.drawing.layered", None)  # nothing is laid out
    done = dlbricks("show", "graph", "onnx:resnet50", "-o", "out.svg")
    assert done.status == 2
    assert re.search(r"the drawing would have \d+ boxes, lines and bends, more than 20", done.err)
    assert "DLBRICKS_MOST_DRAWN" in done.err
    assert not (tmp_path / "out.svg").exists()
