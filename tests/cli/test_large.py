"""Models that do not fit, through the command line."""

import pytest

pytest.importorskip("onnxruntime")

QUICK = ("run", "--backend", "onnxruntime", "--threads", "1", "--composer", "segmented",
         "--runs", "2", "--store", "results.sqlite", "--json", "out.json")  # fmt: skip


def test_a_model_that_does_not_fit_says_so_first_and_is_estimated(
    dlbricks, save, read, monkeypatch
):
    monkeypatch.setattr("dlbricks_core.workflows.footprint.memory_to_use", lambda: 1000)
    done = dlbricks(*QUICK, save("a", "Relu", "Relu"))
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

    compared = dlbricks(*QUICK, "--end-to-end", "a.onnx")
    assert compared.status == 3
    assert "it does not fit" in " ".join(compared.out.split())
    assert read("out.json")["models"][0]["measured_ms"] is None


def test_of_a_model_that_fits_nothing_is_said(dlbricks, save, read):
    done = dlbricks(*QUICK, save("a", "Relu", "Relu"))
    assert "fit" not in done.out
    assert read("out.json")["models"][0]["memory"]["fits"] is True
