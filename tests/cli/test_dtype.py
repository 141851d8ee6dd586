"""Models in another element type, through the command line."""

import pytest

pytest.importorskip("onnxruntime")

BACKEND = ("--backend", "onnxruntime", "--threads", "1", "--store", "results.sqlite")
QUICK = (*BACKEND, "--composer", "sequential", "--runs", "3")


def test_a_run_in_another_type_keeps_the_name_and_says_the_type(dlbricks, save, read, tmp_path):
    a = save("a", "Relu", "Sigmoid")
    written = ("--json", "half.json", "--html", "half.html")
    assert dlbricks("run", *QUICK, a, "--dtype", "float16", *written).status == 0
    assert dlbricks("run", *QUICK, a, "--json", "full.json").status == 0
    half, full = read("half.json"), read("full.json")
    assert (half["settings"]["dtype"], full["settings"]["dtype"]) == ("float16", None)
    assert half["models"][0]["name"] == full["models"][0]["name"] == "a"
    assert half["models"][0]["inputs"] == {"input": "float16[1x16]"}
    assert any(note.startswith("float16: ") for note in half["notes"])
    assert not any("float" in note for note in full["notes"])
    assert "converted to float16" in (tmp_path / "half.html").read_text("utf-8")


def test_two_types_of_a_model_share_no_measurement(dlbricks, save, read):
    a = save("a", "Relu", "Sigmoid")
    for dtype in ((), ("--dtype", "float16")):
        done = dlbricks("run", *QUICK, a, *dtype, "--json", "out.json")
        assert "from the store" not in done.out
        assert read("out.json")["benchmarking"]["reused_networks"] == 0
    again = dlbricks("run", *QUICK, a, "--dtype", "float16")
    assert "nothing left to measure" in again.out


def test_an_estimate_of_a_type_that_nobody_measured_says_so(dlbricks, save):
    a = save("a", "Relu", "Sigmoid", size=256)
    done = dlbricks("estimate", *BACKEND, a, "--dtype", "bfloat16")
    assert done.status == 0
    told = " ".join(done.out.split())
    assert "nothing was measured in bfloat16 with onnxruntime" in told
    assert "Note: bfloat16: " in told


def test_layers_without_kernels_for_a_type_are_named(dlbricks, save):
    done = dlbricks("run", *QUICK, save("a", "Relu"), "--dtype", "bfloat16")
    told = " ".join(done.out.split())
    assert done.status == 3
    assert "no CPU kernel for MatMul of bfloat16" in told
    assert "unsupported: MatMul, Relu" in told


def test_what_the_backend_computes_in_float32_is_counted(dlbricks, save):
    done = dlbricks("run", *BACKEND, "--composer", "segmented", "--runs", "3",
                    save("a", "Sigmoid", "Sigmoid", "Sigmoid"), "--dtype", "float16")  # fmt: skip
    told = " ".join(done.out.split())
    assert "onnxruntime computes" in told
    assert "layers in float32, not in float16" in told


@pytest.mark.parametrize("command", ["run", "estimate", "inspect", "generate"])
def test_an_unknown_type_is_one_line_with_those_that_there_are(dlbricks, save, command):
    backend = BACKEND if command in ("run", "estimate") else ()
    out = ("--output", "bricks") if command == "generate" else ()
    done = dlbricks(command, *backend, save("a", "Relu"), *out, "--dtype", "float12")
    assert (done.status, done.out) == (2, "")
    error, hint = done.err.splitlines()
    assert error.startswith("Error: --dtype float12 is not an element type")
    assert hint.startswith("Hint: There are bfloat16, float16, float32, int4, int8")


def test_bricks_of_a_suite_have_the_type(dlbricks, save, read):
    a = save("a", "Relu")
    made = dlbricks("generate", a, "-G", "1", "--dtype", "float16", "--output", "bricks")
    assert made.status == 0
    done = dlbricks("bench", "bricks", *BACKEND, "--runs", "3", "--json", "bench.json")
    assert done.status == 0
    estimated = dlbricks("estimate", *BACKEND, "--runs", "3", "--composer", "sequential", a,
                         "--dtype", "float16", "--json", "out.json")  # fmt: skip
    assert estimated.status == 0
    timed = {each["signature"] for each in read("bench.json")["bricks"]}
    asked = read("out.json")["bricks"]
    assert {each["signature"] for each in asked} <= timed
    assert {each["origin"] for each in asked} == {"stored"}
