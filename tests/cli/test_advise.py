"""``dlbricks advise``: from a store that a run filled, and from files that users write."""

import json
import shutil
from pathlib import Path

import pytest

from dlbricks_core.machine.system import current_system

pytestmark = pytest.mark.usefixtures("kept_workers")

for needed in ("jsonschema", "onnxruntime"):
    pytest.importorskip(needed)

TIMED = ("--backend", "onnxruntime", "--runs", "3", "--store", "results.sqlite", "-q")
STORE = ("--store", "results.sqlite")


SMALL = {
    "model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "rms_norm_eps": 1e-5,
}  # fmt: skip
"""Configuration of a small language model."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Store of the first test that timed the models, for the others."""
    return tmp_path_factory.mktemp("kept") / "results.sqlite"


@pytest.fixture
def timed(dlbricks, shared, kept):
    """Two models, timed with one thread and with two."""
    models = shared("small", "Relu"), shared("large", "Tanh", "Relu", size=256)
    if not kept.exists():
        for threads in (1, 2):
            assert dlbricks("check", *models, *TIMED, "-G", 1, "--threads", threads).status == 0
        shutil.copy("results.sqlite", kept)
    else:
        shutil.copy(kept, "results.sqlite")
    return models


@pytest.fixture
def files():
    """Prices and accuracies."""
    Path("prices.toml").write_text(
        f'currency = "EUR"\n[per_hour]\n{current_system().fingerprint} = 0.2', "utf-8"
    )
    Path("accuracies.toml").write_text("[accuracy]\nsmall = 60\nlarge = 80", "utf-8")
    return "--prices", "prices.toml", "--accuracies", "accuracies.toml"


def test_each_model_has_a_ranking_of_places(dlbricks, timed, read):
    found = dlbricks("advise", *timed, *STORE, "--json", "a.json")
    assert found.status == 0
    assert max(map(len, found.out.splitlines())) <= 80
    assert found.out.count("the fastest is onnxruntime") == 2
    data = read("a.json")
    assert [ranking["name"] for ranking in data["rankings"]] == ["small", "large"]
    for ranking in data["rankings"]:
        assert {each["threads"] for each in ranking["alternatives"]} == {1, 2}
        latencies = [each["estimate"] for each in ranking["alternatives"]]
        assert latencies == sorted(latencies)
        assert {each["basis"] for each in ranking["alternatives"]} == {"measured"}
        assert {each["system"] for each in ranking["alternatives"]} == {
            current_system().fingerprint
        }
        total = sum(each["first_probability"] for each in ranking["alternatives"])
        assert total == pytest.approx(1.0)


def test_bricks_tell_of_models_that_did_not_run(dlbricks, shared, read):
    model = shared("wide", "Relu", size=1024)
    assert dlbricks("estimate", "--measure", model, *TIMED, "--threads", 1).status == 0
    assert dlbricks("advise", model, *STORE, "--json", "a.json").status == 0
    (ranking,) = read("a.json")["rankings"]
    (found,) = ranking["alternatives"]
    assert (found["basis"], found["origin"]) == ("composed", {"stored": 1.0})


def test_models_with_accuracies_have_a_front(dlbricks, timed, files, read):
    found = dlbricks("advise", *timed, *STORE, *files, "--json", "a.json", "--html", "a.html",
                     "--max-latency", "10s")  # fmt: skip
    assert found.status == 0
    assert max(map(len, found.out.splitlines())) <= 80
    assert "the most accurate first: large, small." in found.out
    assert "EUR / M" in found.out
    (ranking,) = read("a.json")["rankings"]
    fronts = [each["model"] for each in ranking["alternatives"] if each["on_front"]]
    assert sorted(fronts) == ["large", "small"]
    page = Path("a.html").read_text("utf-8")
    assert "EUR for a million inferences" in page
    assert page.count("<svg") == 2  # the front, and latencies with the bound
    assert "bound: 10000 ms" in page or "bound: 10,000 ms" in page
    assert dlbricks("advise", *timed, *STORE, *files, "--max-latency", "1us").status == 3


def test_what_nobody_measured_is_said_to_be_predicted(dlbricks, timed, shared):
    other = shared("other", "Sigmoid", size=64)
    found = dlbricks("advise", other, *STORE)
    assert found.status == 0
    assert "2 of 2 latencies are predicted" in " ".join(found.out.split())
    assert dlbricks("advise", other, timed[0], *STORE, "--predictor", "none").status == 3


def test_a_new_machine_is_advised_on_with_what_is_installed(dlbricks, shared, read):
    model = shared("small", "Relu")
    found = dlbricks("advise", model, "--store", "none.sqlite", "--json", "a.json")
    assert found.status == 0
    (ranking,) = read("a.json")["rankings"]
    assert "onnxruntime" in {each["backend"] for each in ranking["alternatives"]}
    assert {each["basis"] for each in ranking["alternatives"]} == {"predicted"}


def test_an_installed_framework_is_predicted_where_another_one_was_measured(dlbricks, timed, read):
    pytest.importorskip("dlbricks_pytorch")
    found = dlbricks("advise", timed[0], *STORE, "--backend", "pytorch", "--json", "a.json")
    assert found.status == 0, found.err
    (ranking,) = read("a.json")["rankings"]
    assert [each["backend"] for each in ranking["alternatives"]] == ["pytorch"]


def test_layers_of_a_framework_that_is_not_installed_are_named(dlbricks, timed, monkeypatch):
    pytest.importorskip("dlbricks_decoders")
    Path("config.json").write_text(json.dumps(SMALL), "utf-8")
    asked = ("advise", "llm:config.json", "--prompt", "4", "--generate", "2", *STORE)
    words = "onnxruntime is not installed: language models have the layers that ONNX defines"
    assert words not in " ".join(dlbricks(*asked).out.split())
    monkeypatch.setattr("dlbricks_core.commands.options.jobs._installed", lambda _: None)
    assert words in " ".join(dlbricks(*asked).out.split())
    assert words not in " ".join(dlbricks("advise", *timed, *STORE).out.split())


def test_nothing_that_keeps_a_bound_is_no_success(dlbricks, timed):
    assert dlbricks("advise", timed[0], *STORE, "--max-latency", "1s").status == 0
    found = dlbricks("advise", timed[0], *STORE, "--max-latency", "1e-9ms")
    assert found.status == 3
    assert "nothing keeps" in found.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name at least one MODEL"),
        (
            ["small.onnx", "--store", "none.sqlite", "--predictor", "none"],
            "the store holds no latencies",
        ),
        (["small.onnx", "--max-latency", "soon"], "is not a latency"),
        (["small.onnx", "--max-latency", "0"], "'0' is not a latency"),
        (["small.onnx", "--prices", "bad.toml", "--json", "bad.toml"], "names the same file"),
        (["small.onnx", "--system", "nowhere"], "no system 'nowhere'"),
        (["small.onnx", "--min-accuracy", "3"], "--min-accuracy needs"),
        (["small.onnx", "--prices", "absent.toml"], "absent.toml"),
        (["small.onnx", "--backend", "nosuch"], "with nosuch, which is not installed here"),
        (["small.onnx", "--prices", "bad.toml"], "bad.toml has no table 'per_hour'"),
    ],
)
def test_wrong_use_is_one_line_with_a_hint(dlbricks, shared, arguments, words):
    shutil.copy(shared("small", "Relu"), "small.onnx")
    Path("bad.toml").write_text("", "utf-8")
    found = dlbricks("advise", *arguments)
    assert found.status == 2
    assert words in found.err
    assert not found.out
    assert not Path("none.sqlite").exists()
