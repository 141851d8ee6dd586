"""How far predictions are found to err."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.training_data import described, features_of, remember
from dlbricks_survey import candidates as judging
from dlbricks_survey.candidates import Judged, Judges
from dlbricks_survey.networks import draw

from dlbricks_core.facts import Observation
from dlbricks_core.store import ResultStore

COUNT = 120


@pytest.fixture(scope="module")
def drawn():
    stream = draw()
    return [next(stream) for _ in range(COUNT)]


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def measured(asked, store, drawn):
    """Keeps what networks would take if layers took a constant times the baseline."""

    def keep(factor, only=None):
        store.remember_system(asked.system.fingerprint, asked.system.to_dict())
        processor = Processor.of(asked.system, asked.setup.threads)
        bricks = {each.brick.signature: each.brick for each in drawn}
        groups = {each.brick.signature: [f"survey:{each.family}"] for each in drawn}
        remember(store, bricks, groups)
        for each in drawn[:only]:
            ms = expected_ms(features_of(described(each.brick)), processor).sum() * factor
            key = asked.key(each.brick.signature, "brick")
            store.add_samples(key, Observation("s", 0, (float(ms),) * 4, overhead=0.0))

    return keep


@pytest.mark.long
def test_where_latencies_follow_the_features_predictions_are_close(asked, store, measured):
    measured(3.0)
    judges = Judges(asked, store)
    judges.judge()
    assert judges.networks == COUNT
    assert sum(judges.families.values()) == COUNT
    assert len(judges.last) >= 10
    errors = [each.error for each in judges.last]
    # With nothing to learn from, all would be off by a factor of 3.
    assert abs(np.median(errors)) < math.log(3) / 2
    assert np.mean([each.covered for each in judges.last]) > 0.7
    assert all(0 < each.half_width < 1 for each in judges.last)


@pytest.mark.long
def test_each_judgement_is_of_other_networks(asked, store, measured):
    measured(1.0)
    judges = Judges(asked, store)
    seen = set()
    for _ in range(5):
        judges.judge(most=20)
        seen |= {(each.family, each.error) for each in judges.last}
    assert len(seen) == COUNT


def test_nothing_is_judged_where_there_is_little(asked, store, measured):
    judges = Judges(asked, store)
    judges.judge()
    measured(1.0, only=12)
    judges.judge()
    assert judges.networks == 12
    assert judges.last == ()
    assert judges.errors == {}


@pytest.mark.long
def test_other_setups_are_not_judged(asked, store, measured):
    measured(1.0)
    other = replace(asked, setup=replace(asked.setup, threads=2))
    judges = Judges(other, store)
    judges.judge()
    assert judges.networks == 0


@pytest.mark.long
def test_the_error_of_a_family_with_few_networks_is_drawn_to_that_of_all(
    monkeypatch, asked, store, measured
):
    measured(1.0)
    found = {
        **{f"many{i}": Judged("many", 0.1, 0.2, True) for i in range(100)},
        "few": Judged("few", -1.0, 0.2, False),
    }
    monkeypatch.setattr(judging, "judged_by", lambda asked, others: found)
    judges = Judges(asked, store)
    judges.judge()
    mean = (100 * 0.1**2 + 1) / 101
    assert judges.errors[""] == pytest.approx(math.sqrt(mean))
    assert judges.errors["few"] == pytest.approx(math.sqrt((1 + 5 * mean) / 6))
    assert judges.errors["many"] == pytest.approx(0.1, rel=0.05)
