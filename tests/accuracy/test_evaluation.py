"""Figures of an evaluation, computed by hand from runs that are made up."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_accuracy.evaluation import Evaluation
from dlbricks_accuracy.report import evaluation_data

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Estimate
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import Benchmarking, BrickResult, RunResult
from dlbricks_core.facts import Measurement, Observation
from dlbricks_core.figures.figure import Measured, interval
from dlbricks_core.figures.precision import FEWEST
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.machine.cores import FAR
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.ledger import Effort, Ledger

PROTOCOL = PROTOCOLS["interleaved"]


@pytest.fixture
def chain(builder):
    def made(*operators, name="chain"):
        b = builder()
        x = b.input
        for op in operators:
            x = b.add(op, x)
        return b.model(name=name)

    return made


class Made:
    """Puts a run together from what is known about its models."""

    def __init__(self, asked):
        self.request = asked
        self.brickset = BrickSet()
        self.models = []
        self.measurements = {}
        self.latencies = {}

    def model(self, model, estimate=None, half=0.0, measured=None, missing=(), failure=""):
        """Adds a model with an estimate of so many ms, plus or minus ``half``."""
        cut = self.brickset.add(model)
        lacking = {list(cut.counts)[i]: f"reason {i}" for i in missing}
        ends = None if estimate is None else (estimate - half, estimate + half)
        expected = Estimate(estimate, ends, tuple(lacking), ends)
        latency = None if measured is None else Measured(tuple(measured), PROTOCOL)
        self.models.append(
            ModelResult(cut, expected, expected, latency, missing=lacking, failure=failure)
        )
        if measured is not None:
            self.samples(cut.whole.signature, "model", measured)
        return cut

    def samples(self, signature, kind, samples, session="s", far=()):
        """Adds a sample for each round; those of rounds ``far`` were disturbed."""
        key = self.request.key(signature, kind)
        taken = tuple(
            Observation(session, i, (ms,), flags=(FAR,) if i in far else ())
            for i, ms in enumerate(samples)
        )
        self.measurements[key] = Measurement(key, observations=taken)
        if kind == "brick":
            self.latencies[signature] = Measured(tuple(samples), PROTOCOL)

    def ledger(self, **others):
        return Ledger.of(self.measurements, PROTOCOL, **others)

    def run(self, seconds=None, runs=None, loading=0.0):
        benchmarking = Benchmarking(3.0, 2.0)
        effort = Effort(
            {**Effort().seconds, **(seconds or {})},
            {**Effort().runs, **(runs or {})},
            loading=dict.fromkeys(Effort().loading, loading),
        )
        bricks = [
            BrickResult(brick, 1, self.latencies.get(signature))
            for signature, brick in self.brickset.bricks.items()
        ]
        cutting = Cutting.all_timed(CutOptions(), self.brickset)
        return RunResult(
            self.request, cutting, self.models, bricks, benchmarking, self.ledger(effort=effort)
        )


@pytest.fixture
def made(asked):
    return Made(asked)


def test_errors_coverage_and_half_widths_of_all_models_are_right(made, chain):
    # Errors of +2%, -4%, +8% and -15%; half-widths of 3, 2, 8 and 20 ms.
    for estimate, half in ((102, 3), (96, 2), (108, 8), (85, 20)):
        made.model(chain("Relu", name=f"m{estimate}"), estimate, half, [100.0] * 5)
    found = Evaluation.of(made.run())
    assert found.errors == pytest.approx((0.02, -0.04, 0.08, -0.15))
    assert found.mape == pytest.approx(0.0725)
    assert (found.within(0.05), found.within(0.10)) == (0.5, 0.75)
    assert (found.worst.name, found.worst.normalized) == ("m85", pytest.approx(0.85))
    assert found.geometric_mean == pytest.approx((1.02 * 0.96 * 1.08 * 0.85) ** 0.25)
    assert [m.covered for m in found.models] == [True, False, True, True]
    assert found.coverage == 0.75
    widths = sorted([3 / 102, 2 / 96, 8 / 108, 20 / 85])
    assert found.median_half_width == pytest.approx((widths[1] + widths[2]) / 2)
    assert found.models[0].normalized_interval == pytest.approx((0.99, 1.05))
    assert found.speedups.paper.speedup == 1.5
    assert found.left_out == []


def test_models_that_cannot_be_compared_are_named_and_left_out(made, chain):
    made.model(chain("Relu", "Tanh", name="good"), 101, 1, [100.0] * 5)
    made.model(chain("Relu", "Abs", name="partial"), 50, 1, [100.0] * 5, missing=[1])
    made.model(chain("Neg", name="crashed"), 50, 1, None, failure="crashed (SIGSEGV)")
    made.model(chain("Neg", "Abs", name="both"), 50, 1, None, missing=[0, 1])
    found = Evaluation.of(made.run())
    assert [m.name for m in found.models] == ["good"]
    assert found.mape == pytest.approx(0.01)
    reasons = {each.subject: each.reason for each in found.left_out}
    assert reasons == {
        "partial": "1 of 2 bricks missing: reason 1",
        "crashed": "end to end: crashed (SIGSEGV)",
        "both": "2 of 2 bricks missing: reason 0 (and 1 more reasons)",
    }


def test_without_any_model_there_are_no_figures(made, chain):
    made.model(chain("Relu", name="partial"), 50, 1, [100.0] * 5, missing=[0])
    found = Evaluation.of(made.run({"model": 1.0, "brick": 1.0}, {"model": 5, "brick": 5}))
    figures = (found.mape, found.within(0.05), found.worst, found.geometric_mean,
               found.coverage, found.median_half_width)  # fmt: skip
    assert figures == (None,) * 6
    assert (found.speedups.wall_clock, found.speedups.equal_precision) == (None, None)
    data = evaluation_data(found)["evaluation"]
    assert data["models"] == []
    assert data["mape"] is None


SCATTER = np.random.default_rng(3)


def scattered(center, relative, number):
    return tuple(center * (1 + relative * SCATTER.standard_normal(number)))


def runs_needed(samples, precision):
    low, high = interval(Measured(samples, PROTOCOL).replicates)
    half = (high - low) / (high + low)
    return max(math.ceil(len(samples) * (half / precision) ** 2), FEWEST)


def test_costs_at_equal_precision_follow_from_scatter(made, chain):
    whole, other = scattered(100.0, 0.05, 40), scattered(50.0, 0.001, 40)
    brick, shared = scattered(60.0, 0.05, 40), scattered(40.0, 0.05, 40)
    # Half-widths of the estimates: 2% and 0.5%; one brick is only in the first model.
    first = made.model(chain("Relu", "Abs"), 100.0, 2.0, whole)
    second = made.model(chain("Abs"), 40.0, 0.2, other)
    for cut, samples in ((first, brick), (second, shared)):
        made.samples(next(iter(cut.counts)), "brick", samples)
    sampling = {"model": sum(whole + other) / 1e3, "brick": sum(brick + shared) / 1e3}
    besides = 0.01  # seconds that each run takes beside what is measured
    seconds = {kind: 7.0 + spent + 80 * besides for kind, spent in sampling.items()}
    result = made.run(seconds, {"model": 80, "brick": 80}, loading=7.0)
    for precision in (0.01, 0.02):
        speedups = Evaluation.of(result, precision).speedups
        models = runs_needed(whole, precision) * (np.mean(whole) / 1e3 + besides)
        models += runs_needed(other, precision) * (np.mean(other) / 1e3 + besides)
        runs = 40 * (0.02 / precision) ** 2  # the wider estimate decides
        bricks = runs * ((np.mean(brick) + np.mean(shared)) / 1e3 + 2 * besides)
        assert speedups.equal_precision.models_s == pytest.approx(7.0 + models)
        assert speedups.equal_precision.bricks_s == pytest.approx(7.0 + bricks)
        assert speedups.wall_clock == Benchmarking(seconds["model"], seconds["brick"])
    assert runs_needed(other, 0.02) == FEWEST


def test_models_that_differ_only_in_weights_count_each(made, chain):
    for name in ("one", "two"):
        cut = made.model(chain("Relu", name=name), 105.0, 1.0, [100.0] * 10)
    key = made.request.key(cut.whole.signature, "model")
    (first, *rest) = made.measurements[key].observations
    samples = (replace(first, spent_s=0.5, loading_s=2.0), *rest)
    made.measurements[key] = replace(made.measurements[key], observations=samples)
    made.samples(next(iter(cut.counts)), "brick", [100.0] * 10)
    result = made.run({"model": 3.0, "brick": 3.0}, {"model": 10, "brick": 10}, loading=2.0)
    found = Evaluation.of(result)
    assert [m.name for m in found.models] == ["one", "two"]
    assert found.speedups.equal_precision.models_s == pytest.approx(2 * (2.0 + FEWEST * 0.1))
    assert found.speedups.wall_clock.models_s == pytest.approx(3.0 + 2.5)
    assert found.speedups.wall_clock.bricks_s == 3.0


def test_costs_are_unknown_if_samples_came_from_the_store(made, chain):
    cut = made.model(chain("Relu"), 100.0, 1.0, [100.0] * 10)
    made.samples(next(iter(cut.counts)), "brick", [100.0] * 10)
    seconds = {"model": 3.0, "brick": 2.0}
    assert Evaluation.of(made.run(seconds, {"model": 10, "brick": 10})).speedups.wall_clock
    for runs in ({"model": 10, "brick": 9}, {"model": 0, "brick": 10}):
        speedups = Evaluation.of(made.run(seconds, runs)).speedups
        assert (speedups.wall_clock, speedups.equal_precision) == (None, None)
        assert speedups.paper is not None


@pytest.mark.parametrize(("session", "same"), [("s", True), ("earlier", False)])
def test_bricks_timed_in_other_rounds_are_noticed(made, chain, session, same):
    cut = made.model(chain("Relu", "Tanh"), 100.0, 1.0, [100.0] * 10)
    first, second = cut.counts
    made.samples(first, "brick", [50.0] * 10)
    made.samples(second, "brick", [50.0] * 10, session)
    (model,) = Evaluation.of(made.run()).models
    assert model.same_rounds is same


@pytest.mark.parametrize(("far", "same"), [(range(5, 10), False), (range(2, 10), True)])
def test_rounds_whose_samples_were_left_out_are_not_the_same_rounds(made, chain, far, same):
    # Only disturbed samples of the brick share rounds with quiet ones of the network. They count
    # if it has too few others.
    cut = made.model(chain("Relu"), 100.0, 1.0)
    made.models[0] = replace(made.models[0], measured=Measured((100.0,) * 10, PROTOCOL))
    made.samples(cut.whole.signature, "model", [100.0] * 10, far=range(5))
    made.samples(next(iter(cut.counts)), "brick", [100.0] * 10, far=far)
    (model,) = Evaluation.of(made.run()).models
    assert model.same_rounds is same


@pytest.mark.parametrize(("far", "warned"), [(range(7), False), (range(8), True)])
def test_a_warning_names_bricks_with_disturbed_samples(asked, chain, far, warned):
    made = Made(asked)
    brickset = BrickSet.of([chain("Relu")])
    made.samples(next(iter(brickset.bricks)), "brick", [5.0] * 10, far=far)
    (brick,) = assemble(asked, Cutting.all_timed(CutOptions(), brickset), made.ledger()).bricks
    assert (FAR in [each.values.get("disturbance") for each in brick.warnings]) is warned


@pytest.mark.parametrize("operators", [("Relu",), ("Relu", "Tanh", "Relu")])
def test_nothing_measured_end_to_end_flows_into_an_estimate(asked, chain, operators):
    estimates = []
    for whole_ms in (1.0, 1000.0):
        made = Made(asked)
        brickset = BrickSet.of([chain(*operators)])
        (cut,) = brickset.models
        for signature in cut.counts:
            made.samples(signature, "brick", [5.0] * 10)
        made.samples(cut.whole.signature, "model", [whole_ms] * 10)
        result = assemble(asked, Cutting.all_timed(CutOptions(), brickset), made.ledger())
        assert result.models[0].measured.value == whole_ms
        estimates.append(result.models[0].estimate)
    assert estimates[0] == estimates[1]
    assert estimates[0].value == pytest.approx(5.0 * len(operators))
