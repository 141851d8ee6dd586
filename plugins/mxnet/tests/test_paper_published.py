"""The paper's own figures, beside those of a study of its networks."""

import pytest
from dlbricks_mxnet.paper import PaperModels


def way(composer, granularity, mean, speedup=2.0):
    models = [{"normalized": mean - 0.1}, {"normalized": mean + 0.1}]
    return {
        "composer": composer,
        "granularity": granularity,
        "geometric_mean": mean,
        "mape": 0.05,
        "within_10_percent": 0.75,
        "speedup": {"paper": {"speedup": speedup}},
        "models": models,
    }


@pytest.fixture
def study():
    means = {1: 0.9, 3: 0.96, 5: 1.02, 9: 1.0, 10: 0.99}
    return {
        "totals": {"layers": 100, "unique_layers": 20, "unique_share": 0.2},
        "evaluations": [
            *(way("sequential", granularity, mean) for granularity, mean in means.items()),
        ],
    }


def test_each_figure_has_its_counterpart(study):
    found = [(each.text, each.worded(each.ours(study))) for each in PaperModels.published.figures]
    assert found == [
        ("10,815", "100"),
        ("1,529", "20"),
        ("14%", "20.0%"),
        ("82.9%", "80.0%"),
        ("98.1%", "100.0%"),
        ("91.8%", "90.0%"),
        ("8.1%", "5.0%"),
        ("66%", "75%"),
        ("at most 11%", "10.0%"),
        ("at most 5%", "4.0%"),
        ("up to 4.4", "2.00"),
    ]


def test_what_a_study_does_not_tell_is_left_open(study):
    study["evaluations"] = [each for each in study["evaluations"] if each["granularity"] == 3]
    found = [each.ours(study) for each in PaperModels.published.figures]
    assert found == [100, 20, 0.2, *[None] * 8]
