"""Running until it suffices: --precision and --budget."""

import pytest

from dlbricks_core.figures.precision import BUDGET_S, FEWEST, MOST
from dlbricks_core.measure.request import Request

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

BACKEND = ("--backend", "onnxruntime", "--threads", "1", "--store", "results.sqlite",
           "--composer", "sequential", "--json", "out.json")  # fmt: skip
LOOSE = (*BACKEND, "--precision", "90%")
HOPELESS = (*BACKEND, "--precision", "0.0001%", "--budget", "1s")


def counts(data):
    models = [len(each["measured_samples"]) for each in data["models"]]
    return models + [len(each["samples"]) for each in data["bricks"]]


def check_refused(done, *words):
    assert done.status == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


@pytest.mark.parametrize("command", [("estimate", "--measure"), ("check",)])
def test_what_is_precise_is_not_measured_on(dlbricks, save, read, known, command):
    a = save("a", "Relu", "Sigmoid", size=256)
    compared = (a, *LOOSE, *(["--end-to-end"] if command[0] == "estimate" else []))
    done = dlbricks(*command, *compared)
    assert done.status == 0
    assert f"{FEWEST} to {MOST} runs, ±90% or {BUDGET_S:g} s" in " ".join(done.out.split())
    data, bricks_before = read("out.json"), known("out.json", "bricks")
    # Exactly FEWEST, unless another program takes the processor in the middle of a run.
    assert all(FEWEST <= count < MOST // 4 for count in counts(data))
    assert data["settings"]["precision"] == pytest.approx(0.9)
    assert data["settings"]["budget_s"] == BUDGET_S
    assert data["notes"] == []
    wall = data["benchmarking"]["wall_clock"]
    model, *bricks = counts(data)
    assert (wall["models_runs"], wall["bricks_runs"]) == (model, sum(bricks))
    assert 0 < wall["bricks_loading_s"] < wall["bricks_s"]
    assert dlbricks(*command, *compared).status == 0
    assert read("out.json")["benchmarking"]["measured_networks"] == 0
    assert known("out.json", "bricks") == bricks_before


def test_a_second_model_is_measured_where_it_is_new(dlbricks, save, read):
    a, b = (save(name, "Relu", op, size=64) for name, op in (("a", "Sigmoid"), ("b", "Tanh")))
    dlbricks("estimate", "--measure", "--end-to-end", a, *LOOSE)
    more = dlbricks("estimate", "--measure", "--end-to-end", a, b, *LOOSE)
    assert "4 networks came from the store, 2 measured now" in more.out
    assert dlbricks("estimate", a, b, *LOOSE).status == 0
    assert read("out.json")["notes"] == []
    assert read("out.json")["benchmarking"]["measured_networks"] == 0


def test_not_all_of_many_figures_that_fall_short_are_named(dlbricks, save, read):
    models = [save(f"m{i}", "Relu", "Sigmoid", size=16 + i) for i in range(4)]
    dlbricks("estimate", "--measure", "--end-to-end", *models, *HOPELESS[:-1], "0.001s")
    (note,) = read("out.json")["notes"]
    assert note["text"].endswith("and 2 more figures")


def test_the_budget_ends_it_and_the_next_run_goes_on(dlbricks, save, read, known):
    a = save("a", "Relu", "Sigmoid", size=64)
    hurried = (*HOPELESS[:-1], "0.001s")
    done = dlbricks("estimate", "--measure", "--end-to-end", a, *hurried)
    assert done.status == 0
    first = read("out.json")
    assert set(counts(first)) == {FEWEST}
    assert first["settings"]["budget_s"] == pytest.approx(0.001)
    note = first["notes"][0]["text"]
    assert "the budget of 0.001 s ended first" in note
    for each in ("a", "a end to end"):  # few samples may scatter by more than a factor of two
        assert f"{each} ±" in note or f"{each} within a factor of" in note
    assert "not within ±0.0001%" in " ".join(done.out.split())
    done = dlbricks("estimate", "--measure", "--end-to-end", a, *HOPELESS)
    assert "measured now" in done.out or "from the store" not in done.out
    second, models = read("out.json"), known("out.json", "models")
    assert sum(counts(second)) > sum(counts(first))
    for before, after in zip(first["bricks"], second["bricks"], strict=True):
        assert after["samples"][:FEWEST] == before["samples"]
    assert known("out.json", "models") == models


def test_fixed_runs_stay_fixed(dlbricks, save, read):
    dlbricks("estimate", "--measure", "--end-to-end", save("a", "Relu"), *BACKEND, "--runs", "2")
    assert set(counts(read("out.json"))) == {2}
    assert read("out.json")["settings"]["precision"] is None


@pytest.mark.parametrize("command", [("estimate", "--measure"), ("check",), ("compare",)])
def test_what_contradicts_itself_is_refused(dlbricks, save, command):
    a = save("a", "Relu")
    backend = ("--backends", "onnxruntime,pytorch") if command == ("compare",) else BACKEND
    for option in (("--precision", "1%"), ("--budget", "60s")):
        alone = command == ("compare",) and option[0] == "--budget"  # refused with or without runs
        words = option[:1] if alone else ("--runs", option[0])
        check_refused(dlbricks(*command, a, *backend, *option, "--runs", "3"), *words)
        check_refused(dlbricks(*command, a, *backend, *option, "--protocol", "paper"), option[0])


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [("--precision", "much", "1% or 0.01"), ("--precision", "0", "above 0%"),
     ("--precision", "200%", "below 100%"), ("--precision", "nan%", "1% or 0.01"),
     ("--budget", "5 years", "60s or 5m"), ("--budget", "-1s", "60s or 5m")],
)  # fmt: skip
def test_what_is_no_precision_and_no_budget(dlbricks, save, option, value, word):
    check_refused(
        dlbricks(
            "estimate", "--measure", "--end-to-end", save("a", "Relu"), *BACKEND, option, value
        ),
        option,
        word,
    )


def test_units():
    from dlbricks_core.commands.options import kinds

    read = kinds.TIME
    assert [read("90"), read("90s"), read("1.5m"), read("1.5min")] == [90.0] * 4
    assert read("1h") == 3600
    assert kinds.SHARE("2%") == pytest.approx(kinds.SHARE("0.02"))
    assert Request.of("onnxruntime", precision=0.02, budget_s=1.0).precision == 0.02
