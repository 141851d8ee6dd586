"""A quantity of somebody else's, from an installed distribution, through every command."""

import json
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
jsonschema = pytest.importorskip("jsonschema")

from dlbricks_compare import compare  # noqa: E402
from dlbricks_serving import advise  # noqa: E402

import dlbricks_core as api  # noqa: E402
from dlbricks_core.store import ResultStore  # noqa: E402

pytestmark = pytest.mark.usefixtures("kept_workers")

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/reference/dlbricks.schema.json").read_text("utf-8")
)
SOURCE = """
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.measure import Metric
from dlbricks_onnxruntime.backend import OnnxruntimeBackend


class Ballast(Metric):
    '''Size of all weights, and ten for the hull.'''

    quantity = Quantity("ballast", "KiB", Composition.SUM, "weights and a hull")
    runs = 2

    def observe(self, timer, model, seed):
        return (10 + model.weight_bytes / 1024,)


class Twin(OnnxruntimeBackend):
    name = "twin"
"""
POINTS = """
[dlbricks.metrics]
ballast = ballast_metric:Ballast
[dlbricks.backends]
twin = ballast_metric:Twin
"""
HULL = 10
MORE = ("--threads", "1", "--store", "results.sqlite")
ONE = ("--backend", "onnxruntime", *MORE)
ASKED = ("--quantity", "ballast")


def kib(*sizes):
    """Size of square float32 matrices."""
    return sum(4 * size * size / 1024 for size in sizes)


@pytest.fixture(autouse=True)
def installed(install):
    install("ballast_metric", SOURCE, POINTS)


@pytest.fixture
def written(dlbricks, read):
    """What a command writes, valid by the schema; its text and its page."""

    def write(command, *arguments, status=0):
        words = command.split()
        json_path = f"{command}.json"
        done = dlbricks(*words, *arguments, "--json", json_path)
        assert done.status == status, done.out + done.err
        assert max(map(len, done.out.splitlines())) <= 80
        found, name = read(json_path), "_".join(words)
        jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"}).validate(found)
        return found, done

    return write


def test_backends_are_compared_by_it(written, shared):
    asked = shared("chain", "Relu", "Relu", "Tanh", size=64), *ASKED, *MORE, "-G", "1"
    found, done = written("compare", *asked, "--backends", "onnxruntime,twin", "--html", "c.html")
    said = " ".join(done.out.split())
    assert "Ballast of chain on onnxruntime and twin, 1 thread: no difference shown" in said
    assert f"{HULL + kib(64, 64, 64):.1f} KiB" in said
    (model,) = found["models"]
    assert model["quantity"] == {"name": "ballast", "unit": "KiB"}
    for each in model["backends"].values():
        assert each["measured"] == pytest.approx(HULL + kib(64, 64, 64))
        assert each["composed"] == pytest.approx(each["measured"])
        assert each["parallel_estimate"] is None
    assert sum(part["backends"]["twin"]["net"] for part in model["parts"]) == pytest.approx(
        kib(64, 64, 64)
    )
    again, _ = written("results repeat", "compare.json")
    for each in again["models"]:
        assert each["then"]["measured"] == pytest.approx(HULL + kib(64, 64, 64))
    page = Path("c.html").read_text()
    assert "Ballast in KiB, measured end to end" in page
    assert "atenc" not in page
    result = compare(
        asked[0], backends=["onnxruntime", "twin"], quantity="ballast", threads=1,
        granularity=1, store="results.sqlite",
    )  # fmt: skip
    assert {row["measured"] for row in result.rows()} == {HULL + kib(64, 64, 64)}
    assert {row["unit"] for row in result.rows()} == {"KiB"}
    with ResultStore.open("results.sqlite", writes=False) as store:
        sessions = {
            (found.question.setup.backend, each.session)
            for found in store.measurements()
            for each in found.observations
        }
    # Both backends took turns in one session.
    assert len(sessions) == 2
    assert len({session for _, session in sessions}) == 1


def test_a_suite_carries_it_to_another_machine_and_back(written, dlbricks, shared):
    model = shared("chain", "Relu", "Tanh", size=64)
    assert dlbricks("suite", "write", model, "-o", "suite").status == 0
    travels = ("--backend", "onnxruntime", "--threads", "1", *ASKED, "--results", "r.jsonl.zst")
    _, done = written("suite time", "suite", *travels)
    assert "Ballast KiB" in done.out
    assert "Latency" not in done.out
    found, _ = written("estimate", model, *travels)
    assert found["models"][0]["estimate"] == pytest.approx(HULL + kib(64, 64))
    other = dlbricks("estimate", model, *travels[:4], "--results", "r.jsonl.zst")
    assert other.status == 2
    assert "no measurement with that --quantity or --protocol" in " ".join(other.err.split())
    assert "ballast/1, on" in " ".join(other.err.split())


def test_what_nobody_observed_is_predicted_from_enough_that_was(written, dlbricks, shared):
    new = shared("newcomer", "Relu", "Sigmoid", size=48)
    few, done = written("estimate", new, *ONE, *ASKED, "-G", "2", status=3)
    assert few["models"][0]["estimate"] is None
    assert "needs 12 networks of 3 families of models, and the store has 0" in " ".join(
        done.out.split()
    )
    sizes = {"ash": 16, "birch": 40, "cedar": 64, "date": 80}
    known = [shared(name, "Relu", "Tanh", "Abs", "Neg", size=size) for name, size in sizes.items()]
    assert (
        dlbricks("estimate", "--measure", *known, *ONE, *ASKED, "-G", "2", "--end-to-end").status
        == 0
    )
    found, done = written("estimate", new, *ONE, *ASKED, "-G", "2", "--html", "e.html")
    (told,) = found["models"]
    assert told["origin"] == {"predicted": 1.0}
    assert told["estimate"] == pytest.approx(HULL + kib(48, 48), rel=0.02)
    assert told["interval"][0] <= HULL + kib(48, 48) <= told["interval"][1]
    assert "predicted by regression" in done.out
    estimated = api.estimate(
        new, backend="onnxruntime", quantity="ballast", threads=1, granularity=2,
        store="results.sqlite",
    )  # fmt: skip
    assert estimated.rows()[0]["estimate"] == told["estimate"]
    none, _ = written("estimate", new, *ONE, *ASKED, "-G", "2", "--predictor", "none", status=3)
    assert none["models"][0]["estimate"] is None
    huge = shared("huge", "Relu", size=512)
    _, done = written("estimate", huge, *ONE, *ASKED, "-G", "2", status=3)
    assert "no network of nearly their size was observed" in " ".join(done.out.split())


def test_advice_keeps_what_is_required_of_it(written, dlbricks, shared):
    small, large = (
        shared("small", "Relu", size=32),
        shared("large", "Relu", size=96),
    )
    assert (
        dlbricks(
            "estimate", "--measure", small, large, *ONE, "-G", "1", "--runs", "3", "--end-to-end"
        ).status
        == 0
    )
    asked = (small, large, "--store", "results.sqlite", "--require", "ballast<=20KiB")
    found, done = written("advise", *asked, status=3)
    assert found["rankings"] == []
    assert "its ballast is not known there" in " ".join(done.out.split())
    assert "--quantity ballast" in " ".join(done.out.split())

    assert dlbricks("estimate", "--measure", small, large, *ONE, *ASKED, "--end-to-end").status == 0
    found, done = written("advise", *asked, "--html", "a.html", status=3)
    said = " ".join(done.out.split())
    assert "small: the fastest within 20.0 KiB of ballast is onnxruntime" in said
    assert "large: nothing keeps 20.0 KiB of ballast" in said
    assert found["settings"]["required"] == [
        {"quantity": {"name": "ballast", "unit": "KiB"}, "maximum": 20.0}
    ]
    for ranking, size in zip(found["rankings"], (32, 96), strict=True):
        (it,) = ranking["alternatives"]
        (required,) = it["required"]
        assert required["value"] == pytest.approx(HULL + kib(size))
        assert required["basis"] == "measured"
        assert it["allowed"] == required["allowed"] == (size == 32)
        assert it["keeps_probability"] == required["keeps_probability"] == float(size == 32)
    assert "Ballast KiB" in Path("a.html").read_text()
    told = advise([small, large], require=["ballast<=20KiB"], store="results.sqlite")
    assert [(row["model"], row["ballast"], row["allowed"]) for row in told.rows()] == [
        ("small", HULL + kib(32), True),
        ("large", HULL + kib(96), False),
    ]


def test_advice_is_ordered_by_it(written, dlbricks, shared):
    models = shared("small", "Relu", size=32), shared("large", "Relu", size=96)
    Path("a.toml").write_text("[accuracy]\nsmall = 60\nlarge = 80\n", "utf-8")
    asked = (*models, "--store", "results.sqlite", "--by", "ballast")
    assert dlbricks("estimate", "--measure", *models, *ONE, *ASKED, "--end-to-end").status == 0
    # Nobody timed the models: their latencies are predicted, and the place is known nevertheless.
    found, done = written("advise", *asked, "--accuracies", "a.toml", "--html", "a.html")
    said = " ".join(done.out.split())
    assert "2 models: the one with least ballast is small on onnxruntime" in said
    assert f": {HULL + kib(32):.1f} KiB, " in said
    assert "probability that it is first: >99%." in said
    assert "First: probability of being the first by ballast." in said
    assert found["settings"]["by"] == {"name": "ballast", "unit": "KiB"}
    assert found["settings"]["required"] == []
    (ranking,) = found["rankings"]
    assert [each["model"] for each in ranking["alternatives"]] == ["small", "large"]
    for each, size in zip(ranking["alternatives"], (32, 96), strict=True):
        assert each["by"]["value"] == pytest.approx(HULL + kib(size))
        assert (each["by"]["basis"], each["basis"]) == ("measured", "predicted")
        assert each["required"][0]["maximum"] is None
        assert each["allowed"]
        assert each["on_front"]
    assert [each["first_probability"] for each in ranking["alternatives"]] == [1.0, 0.0]
    assert "ballast in KiB" in Path("a.html").read_text("utf-8")
    # A bound of the same quantity is no second column.
    bounded, _ = written("advise", *asked, "--require", "ballast<=20KiB", status=3)
    assert [len(each["alternatives"][0]["required"]) for each in bounded["rankings"]] == [1, 1]
    assert [each["alternatives"][0]["allowed"] for each in bounded["rankings"]] == [True, False]
    told = advise(models, by="ballast", accuracies="a.toml", store="results.sqlite")
    assert [(row["model"], row["ballast"]) for row in told] == [
        ("small", pytest.approx(HULL + kib(32))), ("large", pytest.approx(HULL + kib(96))),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--require", "ballast=5", "Write QUANTITY<=VALUE"),
        ("--require", "ballast<=5s", "Units: B, kB, KiB, MB, MiB, GB, GiB."),
        ("--require", "ballas<=5", "Did you mean ballast?"),
        ("--require", "ballast<=0", "Write more than 0."),
        ("--require", "ballast<=1e", "Write QUANTITY<=VALUE"),
        ("--by", "ballas", "Did you mean ballast?"),
        ("--by", "price", "--by price needs prices of the systems Hint: Name a file"),
    ],
)
def test_a_requirement_or_order_that_is_none_is_refused_with_a_hint(
    dlbricks, shared, option, text, told
):
    done = dlbricks("advise", shared("c", "Relu"), option, text, "--store", "results.sqlite")
    assert done.status == 2
    assert told in " ".join(done.err.split())
