"""A study on a real framework, and that it agrees with single runs."""

import pytest
from dlbricks_study.experiments import study

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.run import run
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

OPTIONS = Request.of("onnxruntime", threads=1, runs=2)
GRANULARITIES = (1, 3)


class Counting(Observer):
    """Remembers how many networks were to be timed."""

    def stage(self, text, total=None):
        if text.startswith("Timing"):
            self.timed = int(text.split()[1])

    timed = 0


@pytest.fixture(scope="module")
def models():
    pytest.importorskip("onnxruntime")
    return load_models(["onnx:squeezenet", "onnx:shufflenet"], LoadOptions(), Observer()).models


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with ResultStore.open(tmp_path_factory.mktemp("study") / "results.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def found(models, store):
    return study(models, GRANULARITIES, OPTIONS, store, Observer())


def test_each_granularity_is_an_evaluation_of_its_own(found, models):
    assert tuple(found.by_granularity) == GRANULARITIES
    for granularity, evaluation in found.by_granularity.items():
        assert set(evaluation.result.brickset.bricks) == set(
            BrickSet.of(models, granularity).bricks
        )
        assert [model.name for model in evaluation.models] == [model.name for model in models]
        assert all(model.same_rounds for model in evaluation.models)
    assert found.default.result.cut_options == CutOptions.chosen(None, None, None)


def test_the_fastest_composer_times_fewer_bricks_than_it_has(found):
    default, fastest = found.by_composer["segmented"].result, found.by_composer["similar"].result
    assert len(fastest.brickset.bricks) > len(default.brickset.bricks)  # its segments are short
    assert fastest.effort.networks["brick"] == len(fastest.cutting.plan.timed)
    assert 0 < len(fastest.cutting.plan.timed) < len(fastest.brickset.bricks)


def test_a_study_lets_the_backend_rewrite_once(models, store):
    asked = []

    class Listening(Observer):
        def stage(self, text, total=None):
            asked.append(text.startswith("Rewriting"))

    study(models, GRANULARITIES, OPTIONS, store, Listening())
    assert sum(asked) == 1


def test_the_cost_of_each_granularity_is_stated(found):
    for evaluation in found.by_granularity.values():
        effort = evaluation.result.effort
        assert effort.networks["brick"] == len(evaluation.result.brickset.bricks)
        assert effort.runs["brick"] == 2 * effort.networks["brick"]
        assert evaluation.speedups.wall_clock.bricks_s == effort.seconds["brick"] > 0
    models_s = {e.speedups.wall_clock.models_s for e in found.by_granularity.values()}
    assert len(models_s) == 1


def test_a_study_measures_nothing_twice_and_agrees_with_a_run(found, models, store):
    counting = Counting()
    again = study(models, GRANULARITIES, OPTIONS, store, counting)
    single = run(models, CutOptions(3), OPTIONS, store, counting)
    assert counting.timed == 0
    for evaluation in (again.by_granularity[3], found.by_granularity[3]):
        estimates = [model.model.estimate.value for model in evaluation.models]
        assert estimates == [model.estimate.value for model in single.models]
