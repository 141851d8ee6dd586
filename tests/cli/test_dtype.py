"""Models in another element type, through the command line."""

import pytest

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

BACKEND = ("--backend", "onnxruntime", "--threads", "1", "--store", "results.sqlite")
QUICK = (*BACKEND, "--composer", "sequential", "--runs", "3")


def test_a_run_in_another_type_keeps_the_name_says_the_type_and_shares_no_measurement(
    dlbricks, shared, read, tmp_path
):
    a = shared("a", "Relu", "Sigmoid")
    as_half = ("estimate", "--measure", *QUICK, a, "--dtype", "float16", "--json", "half.json")
    done = (
        dlbricks("estimate", "--measure", *QUICK, a, "--json", "full.json"),
        dlbricks(*as_half, "--html", "h.html"),
    )
    assert [each.status for each in done] == [0, 0]
    assert not any("from the store" in each.out for each in done)
    half, full = read("half.json"), read("full.json")
    for each in (half, full):
        assert each["benchmarking"]["reused_networks"] == 0
    assert "nothing left to measure" in dlbricks(*as_half).out
    assert (half["settings"]["dtype"], full["settings"]["dtype"]) == ("float16", None)
    assert half["models"][0]["name"] == full["models"][0]["name"] == "a"
    assert half["models"][0]["inputs"] == {"input": "float16[1x16]"}
    assert any(note["subject"] == "float16" for note in half["notes"])
    assert not any("float" in note["text"] for note in full["notes"])
    assert "converted to float16" in (tmp_path / "h.html").read_text("utf-8")


def test_a_type_without_kernels_has_no_estimate(dlbricks, shared):
    a = shared("a", "Relu", "Sigmoid", size=256)
    done = dlbricks("estimate", *BACKEND, a, "--dtype", "bfloat16")
    assert done.status == 3
    assert "unsupported: " in " ".join(done.out.split())


def test_layers_without_kernels_for_a_type_are_named(dlbricks, shared):
    done = dlbricks("estimate", "--measure", *QUICK, shared("a", "Relu"), "--dtype", "bfloat16")
    told = " ".join(done.out.split())
    assert done.status == 3
    assert "no CPU kernel for MatMul of bfloat16" in told
    assert "unsupported: MatMul, Relu" in told


def test_what_the_backend_computes_in_float32_is_counted(dlbricks, shared):
    done = dlbricks("estimate", "--measure", *BACKEND, "--composer", "segmented", "--runs", "3",
                    shared("a", "Sigmoid", "Sigmoid", "Sigmoid"), "--dtype", "float16")  # fmt: skip
    told = " ".join(done.out.split())
    assert "onnxruntime computes" in told
    assert "layers in float32, not in float16" in told


@pytest.mark.parametrize("command", ["estimate", "show", "suite write"])
def test_an_unknown_type_is_one_line_with_those_that_there_are(dlbricks, shared, command):
    backend = BACKEND if command == "estimate" else ()
    out = ("--output", "bricks") if command == "suite write" else ()
    done = dlbricks(*command.split(), *backend, shared("a", "Relu"), *out, "--dtype", "float12")
    assert (done.status, done.out) == (2, "")
    error, hint = done.err.splitlines()
    assert error.startswith("Error: --dtype float12 is not an element type")
    assert hint.startswith("Hint: There are bfloat16, float16, float32, int4, int8")


def test_bricks_of_a_suite_have_the_type(dlbricks, shared, read):
    a = shared("a", "Relu")
    made = dlbricks("suite", "write", a, "-G", "1", "--dtype", "float16", "--output", "bricks")
    assert made.status == 0
    done = dlbricks("suite", "time", "bricks", *BACKEND, "--runs", "3", "--json", "bench.json")
    assert done.status == 0
    estimated = dlbricks("estimate", *BACKEND, "--runs", "3", "--composer", "sequential", a,
                         "--dtype", "float16", "--json", "out.json")  # fmt: skip
    assert estimated.status == 0
    timed = {each["signature"] for each in read("bench.json")["bricks"]}
    asked = read("out.json")["bricks"]
    assert {each["signature"] for each in asked} <= timed
    assert {each["origin"] for each in asked} == {"stored"}
