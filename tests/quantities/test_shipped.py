"""Whole models that were observed elsewhere: their files, and what ships."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_quantities.shipped import FOLDER, ObservedModel, WholeModels, whole_models

from dlbricks_core.facts import Setup
from dlbricks_core.figures.figure import interval
from dlbricks_core.measure.metric import find_metric

SHIPPED = sorted(FOLDER.glob("*.json"))


@pytest.fixture
def setup():
    return lambda **parts: replace(
        Setup("backend", "1.0", "{}", 1, "interleaved", "0.1.0"), **parts
    )


@pytest.fixture
def held():
    """Twelve models of three families, each of ten units beside four for each of its size."""
    models = [
        ObservedModel(f"{family}{i}", family, (float(i), 1.0), 10 + 4.0 * i)
        for i, family in enumerate(("vgg", "resnet", "densenet") * 4, start=1)
    ]
    return WholeModels(
        "q", 3, "b", "1.0", '{"a":"x"}', 1, "a machine", "2026-11-28", (0,), tuple(models)
    )


def test_a_file_holds_what_was_written(held, tmp_path):
    held.write(tmp_path / "q-b.json")
    assert WholeModels.read(tmp_path / "q-b.json") == held


def test_a_value_follows_from_the_sizes(held):
    figure = held.regression.predict(np.array([7.5, 1.0]), 0.0)
    assert figure.value == pytest.approx(40.0, rel=0.01)
    assert replace(held, models=held.models[:11]).regression is None


def test_a_value_is_at_least_a_multiple_of_the_sizes_that_bound_it(held):
    heavy = tuple(
        ObservedModel(f"heavy{i}", "gpt", (50.0 * i, 0.0), 500.0 * i) for i in range(1, 4)
    )
    light = tuple(replace(each, sizes=(each.sizes[0], 20.0), value=200.0) for each in held.models)
    bounded = replace(held, models=light + heavy)
    both = np.array([80.0, 20.0])
    expected = pytest.approx(800, rel=0.05)
    assert bounded.regression.predict(both, 0.0).value == expected
    assert replace(bounded, least=()).regression.predict(both, 0.0).value != expected
    maps = np.array([8.0, 20.0])
    assert bounded.regression.predict(maps, 0.0).value == pytest.approx(200, rel=0.05)


def test_a_family_is_left_out(held):
    assert {each.family for each in held.without("vgg").models} == {"resnet", "densenet"}


@pytest.mark.parametrize(
    ("changes", "metric", "expected"),
    [
        ({}, 3, True),
        ({"threads": 2, "version": "2.0"}, 3, True),
        ({}, 4, False),
        ({"options": '{"a":"y"}'}, 3, False),
        ({"backend": "other"}, 3, False),
    ],
)
def test_they_tell_of_setups_with_the_same_options(held, setup, changes, metric, expected):
    asked = replace(setup(), **{"backend": "b", "options": '{"a":"x"}', **changes})
    assert held.tell_of(asked, metric) == expected


def test_nothing_ships_for_other_backends():
    assert whole_models("peak-memory", "no-such-backend") == ()


@pytest.mark.long
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_fits_the_metric_and_tells_other_families(path, residual):
    held = WholeModels.read(path)
    metric = find_metric(held.quantity)
    assert path.stem == f"{held.quantity}-{held.backend}"
    assert (held.metric_version, held.least) == (metric.version, tuple(metric.least))
    assert {len(each.sizes) for each in held.models} == {len(metric.sizes(residual()))}
    errors, inside = [], []
    for family in {each.family for each in held.models}:
        regression = held.without(family).regression
        for each in held.models:
            if each.family == family:
                figure = regression.predict(np.array(each.sizes), 0.0)
                low, high = interval(figure.plausible)
                errors.append(figure.value / each.value - 1)
                inside.append(low <= each.value <= high)
    assert np.mean(np.abs(errors)) < 0.13
    assert np.mean(inside) > 0.85
