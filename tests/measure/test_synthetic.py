"""Estimates against known truth: a backend whose operators cost what the test says."""

import math
from pathlib import Path

import numpy as np
import pytest
from dlbricks_accuracy.evaluation import Evaluation
from dlbricks_survey.calibration import calibrate

from dlbricks_core.backends import BackendSettings
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.run import run
from dlbricks_core.figures.figure import relative_half_width
from dlbricks_core.figures.precision import FEWEST
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

CHAINS = (
    ("Relu", "Tanh", "Relu", "Abs", "Relu", "Neg"),
    ("Abs", "Neg", "Abs", "Neg", "Abs"),
    ("Tanh", "Tanh", "Neg", "Abs", "Relu"),
)


@pytest.fixture
def synthetic(monkeypatch):
    """The backend of ``helpers/synthetic_backend.py``, known by its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
    import synthetic_backend

    plugin = Plugin("backend", "synthetic", synthetic_backend.TARGET, "tests", "1",
                    synthetic_backend.SyntheticBackend)  # fmt: skip
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda kind, name, base: plugin)
    return synthetic_backend


@pytest.fixture
def networks(builder):
    """So many networks with a fork and a join each, no two with a brick in common."""

    def built(number, smallest=500):
        return [network(builder((1, smallest + 37 * i)), CHAINS[i % 3], i) for i in range(number)]

    return built


def network(b, operators, number):
    x = b.input
    for op in operators:
        x = b.add(op, x)
    b.relu(b.sum(b.add("Tanh", x), b.add("Neg", x)))
    return b.model(name=f"network{number}")


@pytest.fixture
def evaluated(tmp_path):
    def evaluate(models, runs, protocol="interleaved", precision=None, composer=None,
                 **backend_options):  # fmt: skip
        options = Request.of("synthetic", threads=1, runs=runs, protocol=protocol,
                                 precision=precision, backend_options=backend_options)  # fmt: skip
        with ResultStore.open(tmp_path / f"{protocol}.sqlite") as store:
            cut = CutOptions() if composer is None else CutOptions.chosen(None, None, composer)
            return Evaluation.of(run(models, cut, options, store, Observer()))

    return evaluate


def test_on_a_quiet_machine_estimates_are_exact(synthetic, networks, evaluated):
    models = networks(3)
    found = evaluated(models, 3)
    assert found.result.call_ms == pytest.approx(synthetic.CALL_NS / 1e6, rel=1e-4)
    for model, each in zip(models, found.models, strict=True):
        truth = synthetic.truth_ms(model)
        assert each.measured_ms == pytest.approx(truth, rel=1e-5)
        assert each.estimate_ms == pytest.approx(truth, rel=1e-5)
        assert each.half_width < 1e-5
        assert each.same_rounds


def test_similar_bricks_are_exact_if_time_is_proportional_to_size(synthetic, networks, evaluated):
    found = evaluated(networks(9), 3, composer="similar")
    assert len(found.result.brickset.bricks) == 9
    assert len(found.result.cutting.plan.not_timed) == 6  # three forms
    assert sum(bool(each.derived_from) for each in found.result.bricks) == 6
    for each in found.models:
        assert each.estimate_ms == pytest.approx(each.measured_ms, rel=1e-5)
    assert sum(each.half_width > 0.2 for each in found.models) == 6  # which samples cannot show
    assert found.speedups.paper.speedup > 2.5


@pytest.mark.parametrize("drift", ["no", "yes"])
def test_noise_and_drift_do_not_bias_estimates(synthetic, networks, evaluated, drift):
    found = evaluated(networks(10), 24, noise="yes", drift=drift)
    assert np.std(found.errors) > 1e-3  # there is noise
    assert abs(np.mean(found.errors)) < 0.01
    assert np.abs(found.errors).max() < 0.04
    assert 0.002 < found.median_half_width < 0.1


def test_intervals_hold_the_truth(synthetic, networks, evaluated):
    models = networks(30)
    found = evaluated(models, 24, noise="yes")
    ends = [each.model.estimate.interval for each in found.models]
    truths = [synthetic.noisy_ms(model) for model in models]
    held = [low <= truth <= high for (low, high), truth in zip(ends, truths, strict=True)]
    assert sum(held) >= 24  # 90% intervals of the scatter alone


@pytest.mark.parametrize(("drift", "precision"), [("no", 0.015), ("yes", 0.03)])
def test_networks_run_until_estimates_are_as_precise_as_asked(
    synthetic, networks, evaluated, drift, precision
):
    found = evaluated(networks(4), None, precision=precision, noise="yes", drift=drift)
    assert found.result.ledger.notes == ()
    runs = {len(brick.latency.samples) for brick in found.result.bricks}
    assert min(runs) >= FEWEST
    for each in found.models:
        assert abs(each.error) < 0.045
        assert each.half_width < 2 * precision  # of 90% intervals, not 90%
        assert each.same_rounds
    assert len(runs) > 1  # not all need the same number
    again = evaluated(networks(4), None, precision=precision, noise="yes", drift=drift)
    assert again.result.ledger.measured == 0


def test_drift_is_common_to_all_in_interleaved_rounds_only(synthetic, networks, evaluated):
    models = networks(6)
    rounds = evaluated(models, 20, drift="yes")
    whole = rounds.models[0].model.measured.samples
    assert max(whole) > 1.2 * min(whole)  # there is drift
    loops = evaluated(models, 20, protocol="paper", drift="yes")
    assert loops.mape > 3 * rounds.mape


def test_estimates_of_real_time_are_right(synthetic, networks, evaluated, tmp_path):
    errors = []
    while len(errors) < 3:  # other work on the machine may slow the bricks alone
        errors.append(evaluated(networks(2, smallest=150), 15, clock="busy").mape)
        if errors[-1] < 0.05:
            return
        (tmp_path / "interleaved.sqlite").unlink()
    pytest.fail(f"the errors are {errors}")


def test_the_timed_region_adds_less_than_a_hundredth_to_a_short_brick(synthetic, builder):
    b = builder((1, 200))
    b.add("Tanh", b.input)
    model = b.model()
    assert synthetic.truth_ms(model) == pytest.approx(0.1)
    settings = WorkerSettings(BackendSettings(options={"clock": "busy"}))
    with BackendWorker(synthetic.TARGET, synthetic.SyntheticBackend(), settings) as bench:
        bench.load("brick", model)
        samples = bench.sample("brick", 200, warm_io=True)
        inside = bench.outputs("brick")["inside_ms"][-200:]
    # Other work on the machine slows some of the runs; it is not part of the timed region.
    overhead = np.percentile(np.array(samples) - inside, 25)
    assert 0 < overhead < 0.01 * 0.1


def test_a_calibration_on_exact_networks_narrows_the_intervals_of_others(
    synthetic, networks, tmp_path
):
    """The fitted numbers are known: no errors, combined with the numbers from before."""
    *seen, other = networks(10)
    cut = CutOptions.chosen(None, None, "similar")
    options = Request.of("synthetic", threads=1, runs=3)
    with ResultStore.open(tmp_path / "calibrated.sqlite") as store:
        before = run([*seen, other], cut, options, store, Observer())
        fitting = calibrate(seen, cut, options, store, Observer())
        after = run([*seen, other], cut, options, store, Observer())
    values = fitting.calibration.values
    assert len(before.cutting.plan.not_timed) == 7  # of ten bricks of three forms
    assert fitting.calibration.bricks == 9
    assert values["composing_error"] == pytest.approx(0.03 * math.sqrt(10 / 19), rel=1e-3)
    assert values["inference_error"] == pytest.approx(0.17 * math.sqrt(10 / 16), rel=1e-3)
    assert values["computing_share"] == pytest.approx(
        0.7
    )  # operations and bytes give the same ratio here
    assert (before.calibration, after.calibration) == (None, fitting.calibration)
    widths = [
        [relative_half_width(model.estimate.interval_now) for model in result.models]
        for result in (before, after)
    ]
    assert widths[1][-1] < 0.85 * widths[0][-1]
    timed = next(i for i, width in enumerate(widths[0]) if width < 0.1)
    assert widths[1][timed] == widths[0][timed]  # a network of the calibration keeps its own
    assert [model.estimate.value for model in after.models] == pytest.approx(
        [model.estimate.value for model in before.models]
    )
