"""The dial through the command line, on a real backend."""

import pytest

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

ONE = ("--backend", "onnxruntime", "--threads", "1", "--store", "s.sqlite", "--json", "r.json")


@pytest.fixture
def settings(dlbricks, shared, read):
    """What a run of a small model was asked for, and what it says of the dial."""

    def run(*options):
        done = dlbricks(
            "estimate", "--measure", shared("a", "Relu", "Sigmoid", size=256), *ONE, *options
        )
        assert done.status == 0, done.err
        data = read("r.json")
        return data["settings"], data["adaptive"]

    return run


def test_a_model_is_estimated_by_the_dial(settings, read):
    asked, dial = settings("--budget", "30s", "--precision", "10%")
    assert (asked["composer"], asked["predictor"], asked["precision"]) == ("learned", "atlas", 0.1)
    assert dial["half_width"] == max(dial["half_widths"].values())
    (model,) = read("r.json")["models"]
    assert model["measured"] == model["estimate"]
    assert model["normalized"] is None
    assert sum(model["origin"].values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "composer", "precision"),
    [(("--precision", "90%"), "learned", 0.9), (("--precision", "2%"), "learned", 0.02),
     (("--composer", "sequential", "--precision", "50%"), "sequential", 0.5),
     (("--runs", "2"), "segmented", None), (("-G", "1", "--runs", "2"), "sequential", None)],
    ids=str,
)  # fmt: skip
def test_what_a_user_asks_for_decides_how_models_are_cut(settings, options, composer, precision):
    asked, dial = settings(*options, "--budget", "1s") if precision else settings(*options)
    assert (asked["composer"], asked["precision"]) == (composer, precision)
    assert (dial is not None) == (composer == "learned")


def test_the_report_says_what_was_timed(dlbricks, shared):
    done = dlbricks(
        "estimate", "--measure", shared("a", "Relu"), *ONE, "--precision", "10%", "--html", "r.html"
    )
    assert "1 of 1 model ran, with 1 of 1 brick: ±" in " ".join(done.out.split())
    assert " now" in done.out
