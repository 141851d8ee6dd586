"""Explanations of estimates, from runs and profiles that are made up, and of real workers."""

from dataclasses import replace

import pytest
from dlbricks_explain.explanation import Explanation, Profiling, explain
from dlbricks_explain.report import (
    explanation_data,
    group_names,
    places,
    rest_line,
    total_lines,
)

from dlbricks_core.backends import Profile, ProfiledLayer
from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Sequential
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import BrickResult, RunResult
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

PROTOCOL = PROTOCOLS["interleaved"]
CALL_MS = 0.5
OPERATORS = ("Relu", "Tanh", "Relu", "Abs", "Neg")


@pytest.fixture
def model(builder):
    b = builder()
    x = b.input
    for op in OPERATORS:
        x = b.add(op, x)
    return b.model(name="made")


@pytest.fixture
def made(asked, model):
    """A run in which bricks take so many ms, the timer's own included."""

    def run(costs_ms, measured_ms, scatter=0.0):
        bricks = BrickSet.of([model])
        (cut,) = bricks.models
        latencies = {
            signature: Measured((ms, ms - scatter, ms + scatter), PROTOCOL, CALL_MS)
            for signature, brick in bricks.bricks.items()
            if (ms := costs_ms.get(brick.operators[0])) is not None
        }
        estimate = Sequential().compose(cut, latencies)
        measured = None if measured_ms is None else Measured((measured_ms,) * 3, PROTOCOL)
        missing = {s: "no counterpart" for s in cut.counts if s not in latencies}
        found = ModelResult(cut, estimate, estimate, measured, missing=missing)
        results = [
            BrickResult(brick, cut.counts[s], latencies.get(s))
            for s, brick in bricks.bricks.items()
        ]
        cutting = Cutting.all_timed(CutOptions(), bricks)
        return RunResult(asked, cutting, [found], results, None, Ledger())

    return run


COSTS = {"Relu": 2.5, "Tanh": 5.5, "Abs": 0.9, "Neg": 3.5}
"""Without the timer's own: 2, 5, 0.4 and 3 ms, so that the model has 12.4 + 0.5 ms."""


def profile_of(model, *ms, extra=()):
    known = [
        ProfiledLayer(layer.name, layer.op, layer.outputs, each)
        for layer, each in zip(model.layers, ms, strict=True)
        if each is not None
    ]
    return Profiling(Profile([*known, *extra], 30.0))


def test_the_largest_deviations_come_first_and_sum_up_to_the_estimates(made, model):
    # Scaled by a half, to 12 ms: 1, 6, 2, 1 and 2.
    found = Explanation.of(made(COSTS, 12.5), profile_of(model, 2.0, 12.0, 4.0, 2.0, 4.0))
    assert found.scale == pytest.approx(0.5)
    assert found.composed_ms == pytest.approx(12.9)
    assert [group.operators[0] for group in found.groups] == ["Relu", "Tanh", "Neg", "Abs", "Relu"]
    assert [group.positions for group in found.groups] == [(0,), (1,), (4,), (3,), (2,)]
    assert [g.deviation_ms for g in found.groups] == pytest.approx([1, -1, 1, -0.6, 0])
    assert [group.profiled_ms for group in found.groups] == pytest.approx([2, 12, 4, 2, 4])
    assert [group.occurrences for group in found.groups] == [2, 1, 1, 1, 2]
    assert found.deviation_ms == pytest.approx(0.4)
    assert found.groups_ms == pytest.approx(0.4)
    assert found.rest_ms == pytest.approx(0)
    assert found.outside == []
    assert found.complete
    assert any("scaled by 0.500" in line for line in total_lines(found))
    even = Explanation.of(made(COSTS, 12.5), profile_of(model, 1.0, 6.0, 2.0, 1.0, 2.0))
    assert not any("scaled" in line for line in total_lines(even))


def test_time_in_no_layer_is_not_laid_on_layers(made, model):
    # Of 36.5 ms, 12 are in layers; the bricks add up to 12.9.
    found = Explanation.of(made(COSTS, 36.5), profile_of(model, 1.0, 6.0, 2.0, 1.0, 2.0))
    assert found.scale == 1
    assert found.in_layers_ms == pytest.approx(12)
    assert found.in_no_layer_ms == pytest.approx(24)
    assert [g.deviation_ms for g in found.groups] == pytest.approx([1, -1, 1, -0.6, 0])
    lines = total_lines(found)
    sums = "12.0 ms are in layers, 24.0 in no layer, 0.500 in the timer. Bricks sum up to 12.4 ms."
    assert any(sums in line for line in lines)
    assert "24.0 ms in no layer" in lines[-1]


def test_groups_that_stand_out_are_named(made, model):
    found = Explanation.of(made(COSTS, 12.5, scatter=0.05), profile_of(model, *(2.4,) * 5))
    assert {g.operators[0]: g.remarks for g in found.groups if g.remarks} == {
        "Abs": ("cost within the timer's own",)
    }
    even = Explanation.of(made(COSTS, 12.5, scatter=1.0), profile_of(model, 2, 5, 2, 1, 2))
    assert ("difference within the samples' scatter",) in [group.remarks for group in even.groups]


def test_groups_and_layers_without_a_counterpart_are_named(made, model):
    stranger = ProfiledLayer("r", "ReorderOutput", ("elsewhere",), 4.0)
    known = profile_of(model, 2.0, 12.0, None, 2.0, 4.0, extra=[stranger])
    found = Explanation.of(made(COSTS, 12.5), known)
    assert found.scale == pytest.approx(0.5)
    # Only the next layer reads the first of the two: the time belongs to it.
    joined = next(group for group in found.groups if len(group.positions) > 1)
    assert (joined.positions, joined.operators) == ((2, 3), ("Relu", "Abs"))
    assert (joined.cost.ms, joined.profiled_ms) == (pytest.approx(2.4), 2.0)
    assert joined.deviation_ms == pytest.approx(1.4)
    assert places(joined) == "3-4"
    assert places(replace(joined, positions=(2, 4))) == "3, 5"
    assert "one piece of work in the profile" in joined.remarks
    assert found.outside == [stranger]
    assert found.groups_ms == pytest.approx(2.4)
    assert found.rest_ms == pytest.approx(-2)
    # Unless the profile has an unknown layer of its kind.
    relu = profile_of(
        model, 2.0, 12.0, None, 2.0, 4.0, extra=[replace(stranger, operator="a.Relu")]
    )
    found = Explanation.of(made(COSTS, 12.5), relu)
    last = found.groups[-1]
    assert (last.positions, last.deviation_ms, last.remarks) == (
        (2,),
        None,
        ("not in the profile: Relu",),
    )
    assert found.groups_ms == pytest.approx(0.4)
    assert found.rest_ms == pytest.approx(0)
    assert found.complete


def test_a_group_fused_into_one_layer_keeps_its_time(faulty, made, model):
    run = made(COSTS, 12.5)
    cut = BrickSet.of([model], granularity=5).models[0]
    (found,) = run.models
    signature = cut.occurrences[0].signature
    latency = Measured((13.0,) * 3, PROTOCOL, CALL_MS)
    estimate = Sequential().compose(cut, {signature: latency})
    whole = ModelResult(cut, estimate, estimate, found.measured)
    brick = BrickResult(next(iter(BrickSet.of([model], 5).bricks.values())), 1, latency)
    run = RunResult(run.request, run.cutting, [whole], [brick], None, run.ledger)
    told = Explanation.of(run, profile_of(model, 2.0, None, 4.0, None, 6.0))
    (group,) = told.groups
    assert group.profiled_ms == 12.0
    assert group.deviation_ms == pytest.approx(0.5)
    assert group.remarks == ()
    assert group_names(told, 60) == ["Relu @4×6×6, Tanh, Relu, Abs, Neg"]


def test_without_a_profile_the_expensive_groups_come_first(made):
    found = Explanation.of(made(COSTS, 12.5), Profiling(reason="it offers none"))
    assert [g.operators[0] for g in found.groups] == ["Tanh", "Neg", "Relu", "Relu", "Abs"]
    assert all(group.deviation_ms is None for group in found.groups)
    assert (found.scale, found.groups_ms, found.rest_ms) == (None, None, None)
    assert found.deviation_ms == pytest.approx(0.4)
    assert found.complete
    assert "No profile of faulty: it offers none." in total_lines(found)
    assert rest_line(found.groups[3:]) == "2 more groups (top shows more)."
    data = explanation_data(found)["explanation"]
    assert data["profile"]["missing"] == "it offers none"
    assert data["profile"]["sum_ms"] is None
    assert [group["deviation"] for group in data["groups"]] == [None] * 5


def test_groups_without_a_measurement_are_named_and_not_counted(made, model):
    costs = {key: ms for key, ms in COSTS.items() if key != "Tanh"}
    found = Explanation.of(made(costs, None), Profiling(reason="nothing to compare with"))
    last = found.groups[-1]
    assert (last.operators, last.cost) == (("Tanh",), None)
    assert last.remarks == ("no measurement: no counterpart",)
    assert not found.complete
    assert (found.measured_ms, found.deviation_ms) == (None, None)
    assert "more than 7.90 ms" in total_lines(found)[0]


@pytest.fixture
def explained(faulty, monkeypatch, tmp_path):
    """Explains a model on a backend of ``helpers/faulty_backend.py``."""

    def run(model, cls="FaultyBackend"):
        plugin = Plugin("backend", "faulty", f"faulty_backend:{cls}", "tests", "1",
                        getattr(faulty, cls))  # fmt: skip
        monkeypatch.setattr("dlbricks_core.measure.request.find", lambda kind, name, base: plugin)
        options = Request.of("faulty", threads=1, runs=3, timeout_s=20)
        with ResultStore.open(tmp_path / "s.sqlite") as store:
            return explain(model, CutOptions(), options, store, Observer())

    return run


@pytest.mark.process
def test_a_backend_without_a_profile_is_named_and_is_no_failure(explained, model):
    found = explained(model)
    assert found.profile is None
    assert found.complete
    assert found.measured_ms > 0
    assert any(line.startswith("No profile of faulty: ") for line in total_lines(found))


@pytest.mark.process
def test_a_profile_that_breaks_its_worker_is_a_failure(explained, model):
    found = explained(model, "BreakingBackend")
    assert found.profile is None
    assert not found.complete
    assert "crash" in found.profiling.reason.lower()
    assert found.deviation_ms is not None
