"""Quantities other than latency, from the command line to JSON."""

import json
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
jsonschema = pytest.importorskip("jsonschema")
pytestmark = pytest.mark.usefixtures("kept_workers")

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/reference/dlbricks.schema.json").read_text("utf-8")
)
ONCE = ("--backend", "onnxruntime", "--threads", "1", "--store", "results.sqlite", "--runs", "1")
QUICK = (*ONCE[:-1], "2")


@pytest.mark.parametrize(
    ("quantity", "unit", "how"),
    [("load-time", "ms", (*QUICK, "-G", "2")), ("peak-memory", "MiB", (*ONCE, "-G", "4"))],
    ids=["load-time", "peak-memory"],
)
def test_a_quantity_is_measured_composed_compared_and_stored(
    dlbricks, save, read, quantity, unit, how
):
    asked = save("chain", "Relu", "Tanh", size=600), *how, "--quantity", quantity
    done = dlbricks(
        "estimate", "--measure", "--end-to-end", *asked, "--json", "run.json", "--html", "run.html"
    )
    assert done.status == 0, done.err
    assert f"{quantity.replace('-', ' ').capitalize()} of chain on onnxruntime" in done.out
    assert f"In {unit}. " in done.out
    assert "Parallel" not in done.out

    found = read("run.json")
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/estimate"}).validate(found)
    (model,) = found["models"]
    assert model["quantity"] == {"name": quantity, "unit": unit}
    assert model["estimate"] > 0
    assert model["measured"] > 0
    assert model["normalized"] == pytest.approx(model["estimate"] / model["measured"])
    assert model["interval"][0] <= model["interval"][1]
    assert model["parallel_estimate"] is None
    assert all(brick["value"] > 0 for brick in found["bricks"])
    # A whole model tells its total alone: its parts are missing, and not zero.
    assert all(part["measured"] is None for part in model["parts"])
    assert found["timer"]["call_ms"] is None

    page = Path("run.html").read_text()
    assert f"{quantity.replace('-', ' ').capitalize()} in {unit}" in page
    assert "atencies in ms" not in page

    again = dlbricks("estimate", "--measure", "--end-to-end", *asked, "--json", "again.json")
    assert "nothing left to measure" in again.out
    assert dlbricks("estimate", *asked, "--json", "estimate.json").status == 0
    for name in ("again.json", "estimate.json"):
        (other,) = read(name)["models"]
        assert other["estimate"] == model["estimate"]
        assert other["measured"] == model["measured"]


def test_a_cold_start_is_told_in_parts(dlbricks, save, read):
    asked = save("chain", "Relu", "Tanh", size=600), *ONCE, "-G", "2", "--quantity", "cold-start"
    done = dlbricks(
        "estimate", "--measure", "--end-to-end", *asked, "--json", "run.json", "--html", "run.html"
    )
    assert done.status == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    found = read("run.json")
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/estimate"}).validate(found)
    (model,) = found["models"]
    parts = {each["quantity"]["name"]: each for each in model["parts"]}
    assert list(parts)[:5] == ["starting", "reading", "parsing", "preparing", "first-run"]
    for name, each in parts.items():
        assert name in done.out
        assert each["estimate"] >= 0
        assert each["measured"] >= 0
    assert "time of the first run" in Path("run.html").read_text()
    # The process starts once, however many bricks there are.
    assert parts["starting"]["estimate"] < 3 * parts["starting"]["measured"]
    assert model["estimate"] > parts["starting"]["estimate"]


def test_latency_is_the_default_and_has_both_names(dlbricks, save, read):
    asked = save("chain", "Relu"), *QUICK
    assert (
        dlbricks(
            "estimate",
            "--measure",
            "--end-to-end",
            *asked,
            "--quantity",
            "latency",
            "--json",
            "named.json",
        ).status
        == 0
    )
    assert (
        "nothing left to measure"
        in dlbricks("estimate", "--measure", "--end-to-end", *asked, "--json", "default.json").out
    )
    (model,) = read("default.json")["models"]
    assert model["quantity"] == {"name": "latency", "unit": "ms"}
    assert min(model["estimate"], model["measured"], model["parallel_estimate"]) > 0
    assert all(b["value"] > 0 for b in read("default.json")["bricks"])


def test_an_estimate_of_what_the_store_lacks_is_partial(dlbricks, save):
    done = dlbricks("estimate", save("chain", "Relu"), *QUICK, "--quantity", "load-time")
    assert done.status == 3
    assert "not measured" in done.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--quantity", "lode-time"), ("unknown quantity 'lode-time'", "Did you mean load-time?")),
        (("--quantity", "load-time", "--protocol", "paper"), ("'paper' is not for load-time",)),
        (("--quantity", "load-time", "--composer", "similar"), ("'similar' is not for load-time",)),
    ],
    ids=["name", "protocol", "composer"],
)
def test_options_that_do_not_fit_a_quantity_are_refused_with_a_hint(dlbricks, arguments, told):
    # Large enough for a composer that infers figures to infer some.
    done = dlbricks("estimate", "--measure", "onnx:squeezenet", *QUICK, *arguments)
    assert done.status == 2, done.out
    for text in told:
        assert text in " ".join(done.err.split())
    assert "Hint: " in done.err


def test_a_precision_is_refused_for_other_quantities(dlbricks, save):
    backend = "--backend", "onnxruntime"
    done = dlbricks(
        "estimate",
        "--measure",
        save("c", "Relu"),
        *backend,
        "--quantity",
        "load-time",
        "--budget",
        "5s",
    )
    assert done.status == 2
    assert "--budget is not for" in " ".join(done.err.split())


def test_peak_memory_that_nobody_observed_is_predicted_from_well_known_models(
    dlbricks, read, tmp_path
):
    asked = "onnx:light_squeezenet", *ONCE[:-2], "--quantity", "peak-memory"
    done = dlbricks("estimate", *asked, "--json", "e.json", "--html", "e.html")
    assert done.status == 0, done.err
    (told,) = read("e.json")["models"]
    assert told["origin"] == {"predicted": 1.0}
    assert told["interval"][0] < told["estimate"] < told["interval"][1]
    assert 15 < told["estimate"] < 50
    assert (told["parts"], told["missing"]) == ([], [])
    note = "peak-memory of light_squeezenet is predicted from"
    assert note in " ".join(done.out.split())
    assert note in Path("e.html").read_text()
    none = dlbricks("estimate", *asked, "--predictor", "none")
    assert (none.status, note in " ".join(none.out.split())) == (3, False)
    other = dlbricks("estimate", *asked, "--backend-option", "optimizations=basic")
    assert (other.status, note in " ".join(other.out.split())) == (3, False)


def test_peak_memory_of_a_model_that_is_larger_than_all_that_is_known_is_not_predicted(dlbricks):
    one = "--dim", "batch=1", "--dim", "sequence=1", "--dim", "past=8"
    asked = "llm:llama-3.2-1b", *one, *ONCE[:-2], "--quantity", "peak-memory"
    done = dlbricks("estimate", *asked)
    assert done.status == 3
    told = " ".join(done.out.split())
    assert "peak-memory of llama-3.2-1b is not predicted from the" in told
