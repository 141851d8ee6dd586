"""Models that do not fit, through the command line."""

import pytest

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = (
    "estimate",
    "--measure",
    "--backend",
    "onnxruntime",
    "--threads",
    "1",
    "--composer",
    "segmented",
    "--runs",
    "2",
    "--store",
    "results.sqlite",
    "--json",
    "out.json",
)


def test_only_of_a_model_that_does_not_fit_it_is_said_and_it_is_estimated(
    dlbricks, save, read, monkeypatch
):
    model = save("a", "Relu", "Relu")
    fitting = dlbricks(*QUICK, model)
    assert "fit" not in fitting.out
    assert read("out.json")["models"][0]["memory"]["fits"] is True

    monkeypatch.setattr("dlbricks_core.measure.footprint.memory_to_use", lambda: 1000)
    done = dlbricks(*QUICK, model)
    assert done.status == 0
    first, second, third, *_ = done.out.splitlines()
    assert first.startswith("a does not fit: it needs")
    assert "Estimated as if it fitted." in f"{first} {second}"
    assert "a on onnxruntime" in f"{second} {third}"
    assert "Peak memory of this run, all processes: " in done.out
    data = read("out.json")
    memory = data["models"][0]["memory"]
    assert memory["weights_bytes"] == memory["copies_bytes"] == 2 * 4 * 16 * 16
    assert (memory["available_bytes"], memory["cache_bytes"], memory["fits"]) == (1000, 0, False)
    assert data["peak_memory_bytes"] > 10**7

    compared = dlbricks(*QUICK, "--end-to-end", model)
    assert compared.status == 3
    assert "it does not fit" in " ".join(compared.out.split())
    assert read("out.json")["models"][0]["measured"] is None


def test_a_comparison_says_on_which_backends_a_model_does_not_fit(
    dlbricks, save, install, monkeypatch, tmp_path
):
    source = """
        from dataclasses import replace
        from dlbricks_onnxruntime.backend import OnnxruntimeBackend

        class Frugal(OnnxruntimeBackend):
            name = "frugal"
            traits = replace(OnnxruntimeBackend.traits, weights_held=1, weights_loading=1)
        """
    install("frugal", source, "[dlbricks.backends]\nfrugal = frugal:Frugal\n")
    # Two copies of the weights do not fit: ONNX Runtime loads with them, the other one does not.
    monkeypatch.setattr("dlbricks_core.measure.footprint.memory_to_use", lambda: 3_000)
    compare = ("compare", save("a", "Relu", "Relu"), "--backends", "frugal,onnxruntime",
               "--threads", "1", "--runs", "2", "--store", "results.sqlite")  # fmt: skip
    hot = dlbricks(*compare)
    assert hot.status == 3
    words = " ".join(hot.out.split())
    assert "--condition cold times its parts." in words
    assert "a whole model runs in 60% of the free memory" in words
    done = dlbricks(*compare, "--condition", "cold", "--html", "page.html")
    assert done.status == 3
    said = [line for line in done.out.splitlines() if " does not fit on " in line]
    assert [line.split(":")[0] for line in said] == ["a does not fit on onnxruntime"]
    assert "Only its parts are timed." in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80
    assert "a does not fit on onnxruntime" in (tmp_path / "page.html").read_text()
