"""Warm layers, which are predicted from cold ones."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction import shipped
from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.features import NAMES, WARM, Features
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.warm import Warmth, are_warm, cold_twins, warmed, warmth_of

from dlbricks_core.bricks.signature import with_weights_reread

COLD = NAMES.index("cold_bytes")


@pytest.fixture(scope="module")
def contribution():
    return next(each for each in shipped("openvino") if each.setup.threads == 1)


@pytest.fixture
def model(builder):
    b = builder((1, 64, 14, 14))
    depthwise = b.add("Conv", b.input, b.weight(64, 1, 3, 3), group=64, pads=[1, 1, 1, 1])
    return b.model(b.add("Relu", b.add("Conv", depthwise, b.weight(64, 64, 1, 1))))


def test_layers_of_a_warm_brick_are_warm_with_weights_and_without(model):
    cold, warm = Features.of(model), Features.of(with_weights_reread(model))
    assert not are_warm(cold).any()
    assert (warm.numbers[:, COLD] == WARM).all()
    assert are_warm(warm).all()
    np.testing.assert_array_equal(cold_twins(warm).numbers, cold.numbers)
    np.testing.assert_array_equal(cold_twins(cold).numbers, cold.numbers)


def test_features_of_earlier_versions_are_warm_where_no_bytes_of_weights_are_cold(model):
    cold = Features.of(model)
    numbers = cold.numbers.copy()
    numbers[:, COLD] = 0.0
    earlier = replace(cold, numbers=numbers)
    assert are_warm(earlier).tolist() == [True, True, False]
    np.testing.assert_array_equal(cold_twins(earlier).numbers, cold.numbers)


def test_a_warm_layer_is_as_certain_as_the_cold_ones_that_were_measured(model, contribution):
    """Reference data have no warm ones of this kind: far from all, it had the baseline's spread."""
    there = contribution.setup, contribution.system, [contribution]
    cold = believed(Features.of(model), *there)
    warm = believed(Features.of(with_weights_reread(model)), *there)
    common = warmth_of(contribution.setup.backend).deviation ** 2
    np.testing.assert_allclose(warm.variances, cold.variances + common, rtol=1e-6)
    assert (np.abs(warm.mean - cold.mean) < np.log(3)).all()
    assert (warm.mean <= cold.mean).all()


def test_data_are_near_and_short_layers_lose_most_of_their_start(model, contribution):
    processor = Processor.of(contribution.system, 1)
    warm = Features.of(with_weights_reread(model))
    belief = believed(Features.of(model), contribution.setup, contribution.system, [contribution])
    found = warmed(belief, warm, Warmth(0.02, 0.25, 0.0), processor)
    near = expected_ms(warm, processor) / expected_ms(cold_twins(warm), processor)
    assert (near[:2] < 1).all()
    assert near[2] == 1  # it has no weights
    ms = np.exp(belief.mean)
    expected = np.log(ms * near * (ms + 0.005) / (ms + 0.02))
    np.testing.assert_allclose(found.mean, expected)
    assert warmed(belief, Features.of(model), Warmth(0.02, 0.25, 0.3), processor) is belief


def test_layers_of_a_model_share_the_error_of_being_warm(model, contribution):
    features = Features.of(with_weights_reread(model))
    there = contribution.setup, contribution.system, [contribution]
    cold = believed(cold_twins(features), *there)
    processor = Processor.of(contribution.system, 1)
    found = warmed(cold, features, Warmth(0.02, 1.0, 0.5), processor)
    np.testing.assert_allclose(found.covariance - cold.covariance, 0.25, atol=1e-9)


def test_the_longest_layers_keep_all_and_the_shortest_a_share():
    keeps = Warmth(0.1, 0.4, 0.3).of(np.array([1e-9, 0.1, 1e6]))
    np.testing.assert_allclose(keeps, [0.4, 0.7, 1.0], rtol=1e-5)
    assert warmth_of("no such backend").share == 1.0
    assert warmth_of("pytorch").share < warmth_of("onnxruntime").share < 1
