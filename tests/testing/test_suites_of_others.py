"""The suites of composers, predictors, columns and metrics find what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_testing import (
    ColumnConformance,
    ComposerConformance,
    MetricConformance,
    PredictorConformance,
)

from dlbricks_core.compose import Plan, Sequential
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.figures import RESAMPLES, Predicted
from dlbricks_core.measure import Metric
from dlbricks_core.predict import Predictor
from dlbricks_core.report import Column


class Guess(Predictor):
    """Ten milliseconds times the mean of the known latencies, by a seed."""

    name = "guess"
    seed = 0

    def latency(self, known):
        return float(np.mean([each.own for each in known.values()]))

    def predict(self, bricks, setup, system, known, atlas=()):
        if not known:
            return {}
        random = np.random.default_rng(self.seed)
        mean = self.latency(known)
        return {
            s: Predicted(mean, mean * random.lognormal(0, 0.2, RESAMPLES))
            for s in bricks
            if s not in known
        }


class Random(Guess):
    seed = None


class Faster(Guess):
    def latency(self, known):
        return 1 / super().latency(known)


class Certain(Guess):
    def predict(self, *arguments):
        found = super().predict(*arguments)
        return {s: replace(f, draws=np.full(RESAMPLES, f.expected)) for s, f in found.items()}


class Far(Guess):
    def predict(self, *arguments):
        found = super().predict(*arguments)
        return {s: replace(f, expected=9 * f.expected) for s, f in found.items()}


class Nothing(Guess):
    def predict(self, *arguments):
        return {}


class Zero(Guess):
    def predict(self, *arguments):
        found = super().predict(*arguments)
        return {s: replace(f, expected=0.0) for s, f in found.items()}


class Others(Guess):
    def predict(self, *arguments):
        found = super().predict(*arguments)
        return {**found, **{f"{s}x": f for s, f in found.items()}}


class Needy(Guess):
    def predict(self, bricks, setup, system, known, atlas=()):
        return super().predict(bricks, setup, system, {"": known[next(iter(known))]})


class ByPlace(Guess):
    def predict(self, *arguments):
        found = super().predict(*arguments)
        return {
            s: Predicted(f.expected * (1 + i), f.draws * (1 + i))
            for i, (s, f) in enumerate(found.items())
        }


class Mixing(Sequential):
    def total(self, cut, costs):
        whole = super().total(cut, costs)
        return np.full(whole.shape, whole.mean())


class Changing(Sequential):
    def total(self, cut, costs):
        for each in costs.values():
            each *= 2
        return super().total(cut, costs)


class Inverse(Sequential):
    def total(self, cut, costs):
        return 1 / super().total(cut, costs)


class Idle(Sequential):
    def plan(self, bricks, setup, system):
        return Plan({}, {})


class Fickle(Sequential):
    times = 0

    def plan(self, bricks, setup, system):
        Fickle.times += 1
        some = dict(list(bricks.items())[Fickle.times % 2 :])
        return Plan.all_timed(some)


class Hungry(Sequential):
    def plan(self, bricks, setup, system):
        assert bricks
        return super().plan(bricks, setup, system)


class Whole(Sequential):
    def compose(self, cut, latencies):
        return replace(super().compose(cut, latencies), missing=())


class Layers(Column):
    name, heading = "layers", "Layers"

    def cell(self, result):
        return str(len(result.cut.model.layers))


class Long(Layers):
    heading = "Number of all layers"


class Hopeful(Layers):
    def cell(self, result):
        return f"{result.estimate.value:.1f}"


class Lines(Layers):
    def cell(self, result):
        return "one\ntwo"


class Infinite(Layers):
    def value(self, result):
        return float("inf")


class Counting(Layers):
    times = 0

    def cell(self, result):
        Counting.times += 1
        return str(Counting.times)


class Ones(Metric):
    quantity = Quantity("ones", "", Composition.SUM, "one for each brick")

    def observe(self, timer, model, seed):
        return (1.0,)


class Twice(Ones):
    parts = (Ones.quantity,)


class MixedOnes(Ones):
    def total(self, cut, values):
        return np.full(1, sum(each.mean() for each in values[0].values()))


class Negative(Ones):
    def total(self, cut, values):
        return np.full(1, -1.0)


COMPLAINTS = [
    (PredictorConformance, Guess, Random, "test_predictions_are_the_same_each_time"),
    (PredictorConformance, Guess, Faster, "test_a_slower_system_has_slower_bricks"),
    (PredictorConformance, Guess, Certain, "test_predictions_are_uncertain"),
    (PredictorConformance, Guess, Far, "test_draws_lie_around_what_is_expected"),
    (PredictorConformance, Guess, Nothing, "test_bricks_are_predicted_from_others"),
    (PredictorConformance, Guess, Zero, "test_figures_are_positive"),
    (PredictorConformance, Guess, Others, "test_only_bricks_that_were_given_are_predicted"),
    (PredictorConformance, Guess, Needy, "test_without_any_measurement_it_does_not_fail"),
    (PredictorConformance, Guess, Needy, "test_no_bricks_have_no_figures"),
    (PredictorConformance, Guess, ByPlace, "test_the_order_of_bricks_does_not_matter"),
    (ComposerConformance, Sequential, Mixing, "test_each_replicate_stands_for_itself"),
    (ComposerConformance, Sequential, Changing, "test_a_total_does_not_change_the_costs"),
    (ComposerConformance, Sequential, Inverse, "test_slower_bricks_make_no_faster_model"),
    (ComposerConformance, Sequential, Idle,
     "test_the_plan_has_recipes_for_the_bricks_of_the_set"),
    (ComposerConformance, Sequential, Idle, "test_every_figure_follows_from_what_is_timed"),
    (ComposerConformance, Sequential, Fickle, "test_the_plan_is_the_same_each_time"),
    (ComposerConformance, Sequential, Hungry, "test_the_plan_of_no_bricks_is_empty"),
    (ComposerConformance, Sequential, Whole,
     "test_a_brick_without_a_figure_makes_the_estimate_partial"),
    (ColumnConformance, Layers, Long, "test_the_heading_is_short"),
    (ColumnConformance, Layers, Hopeful, "test_cells_are_lines_of_text"),
    (ColumnConformance, Layers, Lines, "test_cells_are_lines_of_text"),
    (ColumnConformance, Layers, Infinite, "test_values_can_be_written_as_json"),
    (ColumnConformance, Layers, Counting, "test_cells_are_the_same_each_time"),
    (MetricConformance, Ones, Twice, "test_the_quantity_is_described"),
    (MetricConformance, Ones, MixedOnes, "test_each_replicate_stands_for_itself"),
    (MetricConformance, Ones, Negative, "test_models_are_composed"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("suite", "sound", "wrong", "test"),
    COMPLAINTS,
    ids=[f"{wrong.__name__}-{test}" for _, _, wrong, test in COMPLAINTS],
)
def test_the_suite_accepts_what_is_sound_and_finds_what_is_wrong(suite, sound, wrong, test):
    def run(plugin):
        getattr(type("Suite", (suite,), {"plugin": plugin, "backend": None})(), test)()

    run(sound)
    with pytest.raises((AssertionError, TypeError, ValueError, StopIteration)):
        run(wrong)
