"""What commands say and do on a machine that others use."""

import json

import pytest
from dlbricks_prediction.training_data import contributions

from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.statistics import slowdown
from dlbricks_core.machine.load import LoadWatch, MachineLoad
from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

SETUP = ("--backend", "onnxruntime", "--threads", "2", "--store", "results.sqlite")
HOT = ("estimate", "--measure", *SETUP, "--json", "out.json")
# On one thread, since two may be on cores that are far from each other, which marks samples too.
COLD = ("estimate", "--measure", *SETUP, "--threads", "1", "--condition", "cold",
        "--composer", "sequential")  # fmt: skip
KNOWN = ("estimate", *SETUP, "--json", "known.json")


@pytest.fixture
def others(monkeypatch):
    """Sets the share of the CPUs that others use, as far as commands see it."""

    def use(share):
        load = MachineLoad(1.0, 2, others=2 * share, steal=0.0, throttled=0.0)
        monkeypatch.setattr(LoadWatch, "lately", lambda self: load)

    return use


@pytest.fixture
def model(tmp_path):
    def read(name="out.json"):
        (found,) = json.loads((tmp_path / name).read_text())["models"]
        return found

    return read


def test_a_busy_machine_makes_figures_doubtful_and_a_status_for_ci(
    dlbricks, save, others, model, tmp_path
):
    others(0.4)
    path = save("a", "Relu", "Tanh")
    done = dlbricks(*HOT, path)
    words = " ".join(done.out.split())
    assert done.status == 3
    assert "Doubtful: a: was measured while other programs used 40% of the CPUs" in words
    found = model()
    assert found["disturbance"] == {"load": pytest.approx(0.4), "slowdown": slowdown(0.4, 2)}
    for name in ("interval", "measured_interval"):
        low, high = found[name]
        assert low < 1.2 * found["estimate"] / slowdown(0.4, 2)
        assert high >= found["estimate"]
    again = dlbricks(*KNOWN, path)
    words = " ".join(again.out.split())
    assert again.status == 3
    assert "Doubtful: a: rests on samples that were measured while other programs used" in words
    # The same knowledge gives the same figures.
    for name in ("estimate", "interval", "measured", "measured_interval", "disturbance"):
        assert model("known.json")[name] == found[name]
    assert dlbricks(*KNOWN, path, "--busy", "accept").status == 0
    pruned = dlbricks("results", "prune", "--disturbed", "--yes", "--store", "results.sqlite")
    assert pruned.status == 0
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        assert not any(each.observations for each in store.measurements())


def test_a_quiet_machine_leaves_nothing_to_say(dlbricks, save, others, model):
    others(0.05)
    done = dlbricks(*HOT, save("a", "Relu", "Tanh"))
    assert (done.status, "other programs" in done.out) == (0, False)
    found = model()
    assert found["disturbance"] is None
    # A model that ran is a measurement.
    assert (found["rests_on"], found["is_measurement"]) == ("whole", True)
    assert found["measured"] == found["estimate"]


def test_less_than_a_quarter_is_a_warning(dlbricks, save, others, model):
    others(0.2)
    done = dlbricks(*HOT, save("a", "Relu", "Tanh"))
    assert done.status == 0
    assert "Warning: a: was measured while other programs used 20%" in " ".join(done.out.split())
    assert model()["interval"][0] < 0.5 * model()["estimate"]


def test_disturbed_bricks_teach_nothing_and_quiet_ones_do(dlbricks, save, others, tmp_path):
    path = save("a", "Relu", "Tanh")

    def taught():
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            assert store.sampled(LATENCY, "onnxruntime")
            return sum(map(len, contributions(store, "onnxruntime")))

    others(0.5)
    fixed = (*COLD, path, "--runs", "3", "--busy", "accept")
    assert dlbricks(*fixed).status == 0
    assert taught() == 0
    others(0.0)
    assert dlbricks(*fixed, "--force").status == 0
    assert taught() > 0


def test_bricks_whose_samples_count_as_nothing_are_predicted(dlbricks, save, others):
    path = save("a", "Relu", "Tanh")
    others(0.999)
    sequential = (*SETUP, "--threads", "1", "--composer", "sequential", "--busy", "accept")
    dlbricks("estimate", "--measure", *sequential, path, "--runs", "3")
    done = dlbricks("estimate", *sequential, path)
    assert "no samples" not in done.err
    assert "predicted" in done.out


def test_other_commands_have_the_same_status(dlbricks, save, others):
    others(0.5)
    options = (*SETUP, "--runs", "2")
    path = save("a", "Relu", "Tanh")
    assert dlbricks("check", *options, path).status == 3


def test_samples_that_measure_nothing_are_named_with_what_to_do(dlbricks, save, others):
    """Two threads beside others that use 80% of the CPUs: nothing counts as measured."""
    others(0.8)
    path = save("a", "Relu", "Tanh")
    done = dlbricks("check", *SETUP, path, "--busy", "accept", "--runs", "2")
    words = " ".join(done.out.split())
    assert done.status == 3
    assert "measure again on a quieter machine, or on one thread" in words
    # A table without a row is none.
    assert "90% interval" not in words


def test_a_wrong_answer_to_a_busy_machine_is_refused(dlbricks, save):
    done = dlbricks(*HOT, save("a", "Relu"), "--busy", "no")
    assert done.status == 2
    assert "wait" in done.err
