"""Whole models that were observed elsewhere: their files, and what ships."""

from dataclasses import replace

import numpy as np
import pytest

from dlbricks_core.measure.probe import find_probe
from dlbricks_core.predict.regression import Regression
from dlbricks_core.predict.whole_models import FOLDER, Seen, WholeModels, whole_models

SHIPPED = sorted(FOLDER.glob("*.json"))


@pytest.fixture
def held():
    """Twelve models of three families, each of ten units beside four for each of its size."""
    models = [
        Seen(f"{family}{i}", family, (float(i), 1.0), 10 + 4.0 * i)
        for i, family in enumerate(("vgg", "resnet", "densenet") * 4, start=1)
    ]
    return WholeModels("q", 3, "b", "1.0", '{"a":"x"}', 1, "a machine", "2026-11-28", tuple(models))


def test_a_file_holds_what_was_written(held, tmp_path):
    held.write(tmp_path / "q-b.json")
    assert WholeModels.read(tmp_path / "q-b.json") == held


def test_a_value_follows_from_the_sizes(held):
    figure = held.regression.predict(np.array([7.5, 1.0]), 0.0)
    assert figure.value == pytest.approx(40.0, rel=0.01)
    assert replace(held, models=held.models[:11]).regression is None


@pytest.mark.parametrize(
    ("changes", "probe", "expected"),
    [
        ({}, 3, True),
        ({"threads": 2, "version": "2.0"}, 3, True),
        ({}, 4, False),
        ({"options": '{"a":"y"}'}, 3, False),
        ({"backend": "other"}, 3, False),
    ],
)
def test_they_tell_of_setups_with_the_same_options(held, setup, changes, probe, expected):
    asked = replace(setup(), **{"backend": "b", "options": '{"a":"x"}', **changes})
    assert held.tell_of(asked, probe) == expected


def test_nothing_ships_for_other_backends():
    assert whole_models("peak-memory", "no-such-backend") == ()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_fits_the_probe_and_tells_other_families(path, residual):
    held = WholeModels.read(path)
    probe = find_probe(held.quantity)
    assert path.stem == f"{held.quantity}-{held.backend}"
    assert held.probe == probe.version
    assert {len(each.sizes) for each in held.models} == {len(probe.sizes(residual()))}
    errors = []
    for family in {each.family for each in held.models}:
        others = [each for each in held.models if each.family != family]
        regression = Regression.fitted(
            np.array([each.sizes for each in others]),
            np.array([each.value for each in others]),
            [each.family for each in others],
        )
        errors += [
            regression.predict(np.array(each.sizes), 0.0).value / each.value - 1
            for each in held.models
            if each.family == family
        ]
    assert np.mean(np.abs(errors)) < 0.25
